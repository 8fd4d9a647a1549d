//! The timeline: its page, as data and in a real browser, and its text.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "opens the page in a real browser"
)]

mod timeline_support;

use moored::platform::Mono;
use moored_sim::timeline::{
    Broken, DETAIL_BYTES_MAX, ENTRIES_AFTER_BROKEN_MAX, ENTRIES_MAX, Entry, Lane, Timeline,
    WORDS_BYTES_MAX,
};
use serde_json::Value;

#[cfg(unix)]
use timeline_support::browser;
use timeline_support::{entry, sample};

const OPENING: &str = "<script type=\"application/json\" id=\"timeline\">";

/// The data of a page, cut out as a browser does: up to the first end of a script.
fn data(page: &str) -> &str {
    let (_, rest) = page.split_once(OPENING).expect("the page has its data");
    rest.split("</script").next().expect("a split has a first part")
}

fn json(page: &str) -> Value {
    serde_json::from_str(data(page)).expect("the data is JSON")
}

fn long_run(entries: usize, broken_at: Option<usize>) -> Timeline {
    let entry_at = |place| {
        let lane = Lane::ALL[place % Lane::ALL.len()];
        entry(Mono(place as u64 * 700), lane, "wire.update", &format!("event {place}"))
    };
    Timeline {
        title: "long".to_owned(),
        facts: Vec::new(),
        entries: (0..entries).map(entry_at).collect(),
        broken: broken_at.map(|entry| Broken {
            oracle: "an_oracle".to_owned(),
            rule: "1.2.3".to_owned(),
            words: "it broke".to_owned(),
            at: Mono(entry as u64 * 700),
            entry: Some(entry),
        }),
        notes: Vec::new(),
    }
}

/// A timeline in which every text that an agent or a scenario can choose is an attack.
fn hostile(attack: &str) -> Timeline {
    let words = || attack.to_owned();
    let mut event = entry(Mono(1_000), Lane::Agent, "agent.step", attack);
    event.kind = words().into();
    event.detail = words();
    event.link = Some(7);
    let mut second = event.clone();
    second.detail = serde_json::to_string(&serde_json::json!({ attack: [attack] })).expect("JSON");
    Timeline {
        title: words(),
        facts: vec![(words(), words())],
        entries: vec![event, second],
        broken: Some(Broken {
            oracle: words(),
            rule: words(),
            words: words(),
            at: Mono(1_000),
            entry: Some(1),
        }),
        notes: vec![words()],
    }
}

const ATTACK: &str = "</script></style></title></noscript>--><script>\
    document.documentElement.dataset.owned = 'yes'</script><img src=x \
    onerror=\"document.documentElement.dataset.owned = 'yes'\">{{script}}<!--<script>\"'&amp;";

#[test]
fn the_data_of_a_page_reads_back_as_the_timeline() {
    for timeline in [sample(), hostile(ATTACK), long_run(3, None), long_run(0, None)] {
        let page = timeline.to_html();
        let read: Timeline = serde_json::from_str(data(&page)).expect("the data is a timeline");
        assert_eq!(read, timeline);
    }
}

#[test]
fn the_page_names_every_lane_from_left_to_right() {
    let page = json(&sample().to_html());
    let headings: Vec<&str> = page["lanes"]
        .as_array()
        .expect("lanes")
        .iter()
        .map(|lane| lane["heading"].as_str().expect("a heading"))
        .collect();
    assert_eq!(headings, ["user", "host", "wire", "agent", "process", "store", "feed", "clients"]);
    for entry in page["entries"].as_array().expect("entries") {
        assert!(Lane::ALL.iter().any(|lane| entry["lane"] == lane.word()), "{entry}");
    }
}

#[test]
fn the_mark_stands_where_it_broke() {
    let mut timeline = sample();
    let broken = timeline.broken.as_mut().expect("the sample breaks");
    let named = broken.entry;
    assert_eq!(json(&timeline.to_html())["mark"], Value::from(named));

    // Without a place it stands after the last event up to its time, and the feed's notice has the same time.
    timeline.broken.as_mut().expect("the sample breaks").entry = None;
    assert_eq!(json(&timeline.to_html())["mark"], Value::from(named.map(|entry| entry + 1)));

    // A place that is not there is as good as none.
    timeline.broken.as_mut().expect("the sample breaks").entry = Some(timeline.entries.len());
    assert_eq!(json(&timeline.to_html())["mark"], Value::from(named.map(|entry| entry + 1)));

    timeline.entries.clear();
    assert_eq!(json(&timeline.to_html())["mark"], Value::Null);
}

#[test]
fn what_an_agent_wrote_cannot_end_its_element() {
    let calm = hostile("calm").to_html();
    let page = hostile(ATTACK).to_html();
    for opening in
        ["<script", "</script", "<style", "</style", "<noscript", "</noscript", "<img", "<!--"]
    {
        assert_eq!(page.matches(opening).count(), calm.matches(opening).count(), "{opening}");
    }
    assert!(!data(&page).contains('<'));
    // What is filled in is no template.
    assert_eq!(page.matches("sha256-").count(), 2);
    assert!(page.contains("{{script}}"));
}

#[test]
fn the_page_fetches_nothing() {
    let page = sample().to_html();
    let policy = page.split("Content-Security-Policy\" content=\"").nth(1).expect("a policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy:.80}");
    for reference in ["http:", "https:", "//cdn", "url(", "@import", " src=", "<link", "innerHTML"]
    {
        // The name of SVG is no address, and is asked of nobody.
        let page = page.replace("'http://www.w3.org/2000/svg'", "");
        assert!(!page.contains(reference), "{reference}");
    }
    assert!(page.is_ascii(), "so that no editor or server can garble it");
}

#[test]
fn a_page_has_at_most_its_number_of_entries_and_says_what_is_cut() {
    let page = json(&long_run(ENTRIES_MAX, Some(4)).to_html());
    assert_eq!((page["first"].as_u64(), page["of"].as_u64()), (Some(0), Some(ENTRIES_MAX as u64)));

    let shown = |entries, broken_at| {
        let html = long_run(entries, broken_at).to_html();
        let page = json(&html);
        assert_eq!(page["entries"].as_array().expect("entries").len(), ENTRIES_MAX);
        assert_eq!(page["of"], entries);
        let first = page["first"].as_u64().expect("a place") as usize;
        assert_eq!(page["entries"][0]["words"], format!("event {first}"));
        let (before, after) = (first, entries - first - ENTRIES_MAX);
        for (number, side) in [(before, "before"), (after, "after")] {
            let words = format!("... {number} events {side} are left out ...");
            assert_eq!(html.contains(&words), number > 0, "{words}");
        }
        first
    };
    let more = ENTRIES_MAX + 5_000;
    assert_eq!(shown(more, None), 0, "nothing broke: its beginning");
    assert_eq!(shown(more, Some(10)), 0, "it broke early");
    assert_eq!(shown(more, Some(more - 1)), 5_000, "it broke at its end");
    let broke = ENTRIES_MAX + 2_000;
    assert_eq!(
        shown(more, Some(broke)) + ENTRIES_MAX,
        broke + 1 + ENTRIES_AFTER_BROKEN_MAX,
        "it broke between: what led there, and a little after"
    );
}

#[test]
fn long_words_and_frames_are_cut_on_the_page() {
    let mut timeline = long_run(1, None);
    let fits = |bytes: usize| "x".repeat(bytes);
    timeline.entries[0].words = fits(WORDS_BYTES_MAX);
    timeline.entries[0].detail = fits(DETAIL_BYTES_MAX);
    let read: Timeline = serde_json::from_str(data(&timeline.to_html())).expect("a timeline");
    assert_eq!(read, timeline);

    // The letter at the limit has two bytes, and is not cut in two.
    timeline.entries[0].words = fits(WORDS_BYTES_MAX - 1) + "\u{e9}";
    timeline.entries[0].detail = fits(DETAIL_BYTES_MAX + 1);
    let read: Timeline = serde_json::from_str(data(&timeline.to_html())).expect("a timeline");
    assert_eq!(read.entries[0].words, fits(WORDS_BYTES_MAX - 1) + " ... (2 bytes more)");
    assert_eq!(read.entries[0].detail, fits(DETAIL_BYTES_MAX) + " ... (1 bytes more)");
}

#[test]
fn the_text_has_one_line_an_event_and_the_mark_in_its_place() {
    let event = |us, lane, kind, words| entry(Mono(us), lane, kind, words);
    let mut timeline = Timeline {
        title: "stop-then-send".to_owned(),
        facts: vec![
            ("seed".to_owned(), "7".to_owned()),
            ("replay".to_owned(), "moored replay stop-then-send --seed 7".to_owned()),
        ],
        notes: vec!["the user sends m1".to_owned()],
        entries: vec![
            event(0, Lane::User, "user.send", "m1 \"hello\""),
            event(1_619, Lane::Store, "store.durable", "unit 1"),
            event(1_619, Lane::Process, "process.spawn", "pid 101"),
            event(12_345_006, Lane::Agent, "agent.step", "says \"a\nb\"\u{1b}[2J\u{202e}"),
        ],
        broken: Some(Broken {
            oracle: "an_oracle".to_owned(),
            rule: "1.2.3".to_owned(),
            words: "spawned twice".to_owned(),
            at: Mono(1_700),
            entry: Some(2),
        }),
    };
    let expected = r#"stop-then-send
  seed    7
  replay  moored replay stop-then-send --seed 7
  - the user sends m1

         0.000  user     user.send      m1 "hello"
         1.619  store    store.durable  unit 1
         1.619  process  process.spawn  pid 101
         1.700  !!!!!!!  rule 1.2.3 broken: spawned twice
     12345.006  agent    agent.step     says "a\nb"\u{1b}[2J\u{202e}

broken: rule 1.2.3 (an_oracle) at 1.700 ms: spawned twice
"#;
    assert_eq!(timeline.to_text(), expected);

    timeline.broken = None;
    let text = timeline.to_text();
    assert!(text.ends_with("\n\nnothing broke\n") && !text.contains("!!!"), "{text}");
}

#[test]
fn without_its_script_the_page_shows_the_text() {
    let timeline = sample();
    let page = timeline.to_html();
    let shown = page.split("<noscript>").nth(1).and_then(|rest| rest.split("<pre>").nth(1));
    let shown = shown.and_then(|rest| rest.split("</pre>").next()).expect("a text");
    let shown = shown.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">");
    assert_eq!(shown.replace("&amp;", "&"), timeline.to_text());
}

#[test]
fn an_entry_without_detail_or_link_has_neither_in_its_json() {
    let entry = entry(Mono(5), Lane::Host, "host.created", "session s1");
    let written = serde_json::to_string(&entry).expect("JSON");
    let expected = r#"{"at_us":5,"lane":"host","kind":"host.created","words":"session s1"}"#;
    assert_eq!(written, expected);
    assert_eq!(serde_json::from_str::<Entry>(&written).expect("an entry"), entry);
}

/// What the page's script made: the document without the style, the text form, the data and the script.
#[cfg(unix)]
fn drawn(document: &str) -> &str {
    let (_, rest) = document.split_once("<div id=\"page\"").expect("the page");
    rest.split("<noscript>").next().expect("a split has a first part")
}

/// The script ran to its end, and drew so many events.
#[cfg(unix)]
fn assert_ready(document: &str, entries: usize) {
    let opening = document.split("<head>").next().expect("a split has a first part");
    assert!(!opening.contains("data-error"), "{opening}");
    assert!(opening.contains(&format!("data-ready=\"{entries} events\"")), "{opening}");
    assert_eq!(drawn(document).matches(" data-place=\"").count(), entries);
    assert_eq!(drawn(document).matches("class=\"chip\"").count(), entries);
}

#[cfg(unix)]
fn opened(timeline: &Timeline, place: &str) -> Option<String> {
    let browser = browser::find()?;
    Some(browser::document(&browser, &timeline.to_html(), place))
}

#[cfg(unix)]
#[test]
fn a_browser_draws_every_lane_and_event_and_marks_what_broke() {
    let timeline = sample();
    let Some(document) = opened(&timeline, "") else { return };
    assert_ready(&document, timeline.entries.len());
    let drawn = drawn(&document);
    for lane in Lane::ALL {
        let head =
            format!("<span class=\"lane lane-{}\" title=\"{}\">", lane.word(), lane.meaning());
        let head = format!("{head}{}</span>", lane.heading());
        assert_eq!(drawn.matches(&head).count(), 1, "{head}");
        let events = timeline.entries.iter().filter(|entry| entry.lane == lane).count();
        let rows = format!("data-lane=\"{}\"", lane.word());
        assert!(events > 0);
        assert_eq!(drawn.matches(&rows).count(), events, "{rows}");
    }
    for entry in &timeline.entries {
        let chip = format!(
            "<span class=\"kind\">{}</span><span class=\"words\">{}</span>",
            entry.kind, entry.words
        );
        assert!(drawn.contains(&chip), "{chip}");
    }
    let broken = timeline.broken.expect("the sample breaks");
    assert!(drawn.contains("Rule 3.4.1 broken</span>"), "the banner");
    assert!(drawn.contains(&format!("<p class=\"words\">{}</p>", broken.words)), "the banner");
    assert!(drawn.contains("at 5214.904 ms"), "the banner");
    assert!(drawn.contains("id=\"broken-mark\""), "the line across the lanes");
    assert_eq!(drawn.matches("at-broken").count(), 1, "the event itself");
    assert!(drawn.contains("\u{2026} 4.0 s of nothing \u{2026}"), "quiet time is folded");
    assert!(drawn.matches("<path d=\"M").count() >= 2, "lines between events of one cause");
}

#[cfg(unix)]
#[test]
fn a_browser_opens_the_page_at_an_event_with_its_filters() {
    let timeline = sample();
    let place = timeline.entries.iter().position(|entry| entry.kind == "wire.cancel");
    let place = place.expect("the sample has a Stop");
    let address = format!("#e={place}&find=stop&hide=feed,client");
    let Some(document) = opened(&timeline, &address) else { return };
    assert_ready(&document, timeline.entries.len());
    let drawn = drawn(&document);
    let panel = drawn.split("<aside").nth(1).expect("a panel");
    assert!(panel.contains("<h2>wire.cancel</h2>"), "{panel}");
    assert!(panel.contains("unpin"), "{panel}");
    // The frame is laid out, one member a line.
    assert!(panel.contains("<span class=\"key\">\"method\"</span>: <span class=\"string\">\"session/cancel\"</span>,\n  "), "{panel}");
    assert!(panel.contains("same cause: #4"), "{panel}");
    // The frame of the cancel says nothing of a Stop: what is asked for is shown all the same, and the filter goes.
    assert!(drawn.contains(&format!(">{} events<", timeline.entries.len())), "the filters are off");

    let Some(document) = opened(&timeline, "#find=prompt&hide=agent") else { return };
    let said = |entry: &Entry| format!("{}\n{}\n{}", entry.kind, entry.words, entry.detail);
    let found = |entry: &&Entry| entry.lane != Lane::Agent && said(entry).contains("prompt");
    let found = timeline.entries.iter().filter(found).count();
    assert!(found > 0);
    let words = format!(">{found} of {} events<", timeline.entries.len());
    assert!(document.contains(&words), "{words}");
    assert!(
        document.contains("events filtered out \u{2026}"),
        "quiet time that is not quiet says so"
    );
}

#[cfg(unix)]
#[test]
fn a_browser_takes_nothing_that_an_agent_wrote_for_markup() {
    let timeline = hostile(ATTACK);
    let Some(document) = opened(&timeline, "#e=1") else { return };
    assert_ready(&document, timeline.entries.len());
    assert!(!document.contains("data-owned"), "{document}");
    assert!(!drawn(&document).contains("<img") && !drawn(&document).contains("<script"));
    assert!(drawn(&document).contains("&lt;/script&gt;&lt;/style&gt;"), "it is there, as text");
}

#[cfg(unix)]
#[test]
fn a_browser_runs_no_script_but_the_pages_own() {
    let Some(browser) = browser::find() else { return };
    // As if the escaping had failed: the policy is the second lock.
    let page = sample().to_html().replacen("</body>", &format!("{ATTACK}</body>"), 1);
    let document = browser::document(&browser, &page, "");
    assert_ready(&document, sample().entries.len());
    assert!(document.contains("<img src=\"x\""), "the attack is in the document");
    assert!(!document.contains("data-owned"), "{document}");
}

#[cfg(unix)]
#[test]
fn a_browser_marks_what_broke_before_anything_happened() {
    let mut timeline = sample();
    timeline.entries.clear();
    timeline.broken.as_mut().expect("the sample breaks").entry = None;
    let Some(document) = opened(&timeline, "") else { return };
    assert_ready(&document, 0);
    assert!(drawn(&document).contains("id=\"broken-mark\""));
}

#[cfg(unix)]
#[test]
fn a_browser_draws_the_longest_page_and_says_what_is_cut() {
    let Some(document) = opened(&long_run(ENTRIES_MAX + 5, Some(ENTRIES_MAX + 4)), "") else {
        return;
    };
    assert_ready(&document, ENTRIES_MAX);
    let words = format!(">5 events before these left out: a page has at most {ENTRIES_MAX}<");
    assert!(drawn(&document).contains(&words), "{words}");
    assert!(drawn(&document).contains("id=\"broken-mark\""));
}
