'use strict';
// Draws the page from the JSON beside it. Whatever an agent wrote reaches the document as text alone (textContent).
(() => {
const root = document.documentElement;
addEventListener('error', (event) => { root.dataset.error = `${event.message} (line ${event.lineno})`; });

// Heights of the style sheet, in pixels. Places are computed from them, so that nothing is ever measured.
const ROW = 24, FOLD = 32, MARK = 40, BLOCK = 200;
// Quiet time from here on is folded to one labelled line; less of it is a little space.
const FOLD_US = 250_000;
const SPACES = [[100_000, 14], [10_000, 9], [1_000, 4]];
// Most events of one cause that the panel lists around the one shown.
const CAUSE_ROWS_MAX = 40;

const page = JSON.parse(document.getElementById('timeline').textContent);
const entries = page.entries;
const lanes = page.lanes.map((lane, place) => ({
  ...lane, place, shown: true, number: entries.filter((entry) => entry.lane === lane.lane).length,
}));
const laneOf = Object.fromEntries(lanes.map((lane) => [lane.lane, lane]));
// Places in the run, from which those on this page are counted.
const mark = page.mark === null ? null : page.mark - page.first;
const markIsHere = page.broken !== null && (mark === null || (mark >= 0 && mark < entries.length));

const at = (id) => document.getElementById(id);
function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}
function button(className, text, press) {
  const element = make('button', className, text);
  element.type = 'button';
  if (press) element.addEventListener('click', press);
  return element;
}
const ms = (us) => `${Math.floor(us / 1_000)}.${String(us % 1_000).padStart(3, '0')}`;
function span(us) {
  if (us < 1_000) return `${us} \u00b5s`;
  if (us < 100_000) return `${(us / 1_000).toFixed(1)} ms`;
  if (us < 1_000_000) return `${Math.round(us / 1_000)} ms`;
  const s = us / 1_000_000;
  if (s < 60) return `${s.toFixed(1)} s`;
  if (s < 3_600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  return `${Math.floor(s / 3_600)} h ${Math.floor((s % 3_600) / 60)} min`;
}
// Neighbouring numbers get hues far apart.
const hue = (link) => String(Math.round((link * 137.508 + 205) % 360));
const count = (number, noun) => `${number} ${noun}${number === 1 ? '' : 's'}`;

// ---- What the run was, and what broke.

function drawHead() {
  at('title').textContent = page.title;
  const last = entries.length ? entries[entries.length - 1].at_us - entries[0].at_us : 0;
  at('extent').textContent = `${count(page.of, 'event')} in ${span(last)} of virtual time${page.broken ? '' : ', nothing broke'}`;
  for (const [name, value] of page.facts) {
    const cell = make('dd');
    cell.append(make('code', '', value));
    if (/ /.test(value) && navigator.clipboard) cell.append(copier(value));
    at('facts').append(make('dt', '', name), cell);
  }
  for (const note of page.notes) at('notes').append(make('li', '', note));
  const after = page.of - page.first - entries.length;
  cut('cut-before', page.first, 'before these');
  cut('cut-after', after, 'after these');
  if (page.broken) drawBroken(page.broken);
}
function cut(id, number, side) {
  at(id).hidden = number === 0;
  at(id).textContent = `${count(number, 'event')} ${side} left out: a page has at most ${entries.length}`;
}
function copier(text) {
  const copy = button('copy', 'copy', () => {
    navigator.clipboard.writeText(text).then(() => { copy.textContent = 'copied'; }, () => {});
  });
  return copy;
}
function drawBroken(broken) {
  const top = make('div', 'top');
  top.append(
    make('span', 'rule', `Rule ${broken.rule} broken`),
    make('span', 'when', `at ${ms(broken.at_us)} ms`),
    make('span', 'oracle', `oracle ${broken.oracle}`),
  );
  const link = make('a', '', 'Show the place');
  link.href = mark === null ? '#broken-mark' : `#e=${mark + page.first}`;
  link.addEventListener('click', (event) => { event.preventDefault(); toBroken(); });
  at('broken').append(top, make('p', 'words', broken.words), link);
  at('broken').hidden = false;
  at('to-broken').textContent = `rule ${broken.rule} at ${ms(broken.at_us)} ms`;
  at('to-broken').title = broken.words;
  at('to-broken').hidden = false;
  at('to-broken').addEventListener('click', toBroken);
}

// ---- The lanes and their filters.

const filters = [];
function drawLanes() {
  const digits = entries.reduce((most, entry) => Math.max(most, ms(entry.at_us).length), 0);
  root.style.setProperty('--time', `${Math.max(70, Math.ceil(digits * 7.1) + 24)}px`);
  for (const lane of lanes) {
    const head = make('span', `lane lane-${lane.lane}`, lane.heading);
    head.title = lane.meaning;
    lane.head = head;
    at('lanes').append(head);
    lane.line = make('i', `lane-${lane.lane}`);
    at('lines').append(lane.line);
    const filter = button(`lane-${lane.lane}`, lane.heading, (event) => {
      const alone = event.altKey || event.shiftKey;
      for (const other of lanes) if (alone) other.shown = other === lane;
      if (!alone) lane.shown = !lane.shown;
      refilter();
    });
    filter.append(make('span', 'number', String(lane.number)));
    filter.title = `${lane.meaning} (Shift and click: this lane alone)`;
    lane.filter = filter;
    at('lane-filters').append(filter);
  }
}
function placeLanes() {
  const shown = lanes.filter((lane) => lane.shown);
  shown.forEach((lane, place) => {
    lane.share = (place + .5) / shown.length;
    lane.rightward = lane.share < .6;
    at('grid').style.setProperty(`--x-${lane.lane}`, `calc(var(--time) + (100% - var(--time)) * ${lane.share})`);
  });
  for (const lane of lanes) {
    lane.head.hidden = lane.line.hidden = !lane.shown;
    lane.filter.setAttribute('aria-pressed', String(lane.shown));
  }
}

// ---- The events. All of them are in the document; the browser skips the blocks that are out of sight.

const rows = [], blocks = [];
let markRow = null;
function drawEvents() {
  entries.forEach((entry, place) => {
    if (place % BLOCK === 0) blocks.push(make('li', 'block'));
    const row = make('div', 'event');
    row.dataset.place = String(place);
    row.dataset.lane = entry.lane;
    const time = make('time', '', ms(entry.at_us));
    const chip = button('chip');
    chip.tabIndex = -1;
    chip.append(make('span', 'kind', entry.kind), make('span', 'words', entry.words));
    if (entry.link !== undefined) {
      row.style.setProperty('--hue', hue(entry.link));
      chip.append(make('span', 'cause', `#${entry.link}`));
    }
    if (place === mark) row.classList.add('at-broken');
    row.append(time, make('span', 'dot'), chip);
    rows.push({ row, time, entry, find: null });
    blocks[blocks.length - 1].append(row);
  });
  if (markIsHere) {
    markRow = make('div', 'mark');
    markRow.id = 'broken-mark';
    const { rule, words, oracle, at_us } = page.broken;
    const label = make('span', 'label', `rule ${rule} broken: ${words}`);
    label.title = `${oracle}: ${words}`;
    // The event it was seen at has said the time already, unless it was seen later.
    if (mark === null || at_us !== entries[mark].at_us) markRow.append(make('span', 'at', ms(at_us)));
    markRow.append(label);
    if (!blocks.length) blocks.push(make('li', 'block'));
    const place = mark === null ? 0 : Math.floor(mark / BLOCK);
    blocks[place].append(markRow);
  }
  at('events').append(...blocks);
}

// What is shown, in order; where; and who comes before and after it of the same cause.
let shown = [], middles = [], before = [], after = [], folds = [];
function layOut() {
  for (const fold of folds) fold.remove();
  shown = []; middles = []; before = []; after = []; folds = [];
  const lastOf = new Map();
  let y = 4, previous = null, hidden = 0;
  const putMark = (top) => { markRow.style.top = `${y - top}px`; y += MARK; };
  blocks.forEach((block, number) => {
    const top = number === 0 ? 0 : y;
    if (number === 0 && markIsHere && mark === null) putMark(top);
    for (let place = number * BLOCK; place < Math.min((number + 1) * BLOCK, rows.length); place++) {
      const { row, time, entry } = rows[place];
      const passes = passesFilter(place);
      row.hidden = !passes;
      if (!passes) hidden++;
      else {
        const quiet = previous === null ? 0 : Math.max(0, entry.at_us - entries[previous].at_us);
        if (quiet >= FOLD_US) {
          putFold(block, y - top, quiet, hidden);
          y += FOLD;
        } else y += (SPACES.find(([us]) => quiet >= us) || [0, 0])[1];
        const markBetween = markIsHere && mark !== null && previous !== null && previous <= mark && place > mark;
        time.className = previous !== null && quiet === 0 && !markBetween ? 'again' : '';
        row.className = row.className.replace(/ ?\b(left|right)ward\b| ?\blane-\w+/g, '')
          + ` lane-${entry.lane} ${laneOf[entry.lane].rightward ? 'rightward' : 'leftward'}`;
        row.style.top = `${y - top}px`;
        shown.push(place);
        middles[place] = y + ROW / 2;
        if (entry.link !== undefined) {
          const last = lastOf.get(entry.link);
          if (last !== undefined) { before[place] = last; after[last] = place; }
          lastOf.set(entry.link, place);
        }
        y += ROW; previous = place; hidden = 0;
      }
      if (place === mark && markIsHere) putMark(top);
    }
    block.style.height = `${y - top}px`;
    block.style.containIntrinsicSize = `auto ${y - top}px`;
  });
  at('nothing').hidden = shown.length > 0 || entries.length === 0;
  at('count').textContent = shown.length === entries.length ? count(entries.length, 'event') : `${shown.length} of ${count(entries.length, 'event')}`;
}
function putFold(block, top, quiet, hidden) {
  const fold = make('div', 'fold');
  const what = hidden ? `${span(quiet)}, ${count(hidden, 'event')} filtered out` : `${span(quiet)} of nothing`;
  fold.append(make('span', '', `\u2026 ${what} \u2026`));
  fold.style.top = `${top}px`;
  block.append(fold);
  folds.push(fold);
}

// ---- Filters.

let terms = [];
function passesFilter(place) {
  const { entry } = rows[place];
  if (!laneOf[entry.lane].shown) return false;
  if (!terms.length) return true;
  rows[place].find ??= `${entry.kind}\n${entry.words}\n${entry.detail || ''}`.toLowerCase();
  return terms.every((term) => (/^#\d+$/.test(term)
    ? entry.link === Number(term.slice(1))
    : rows[place].find.includes(term)));
}
function refilter() {
  terms = at('find').value.toLowerCase().split(/\s+/).filter(Boolean);
  const anchor = current !== null && middles[current] !== undefined ? middles[current] - scrollY : null;
  placeLanes();
  layOut();
  ticks = null;
  // What was looked at stays where it was.
  if (anchor !== null && middles[current] !== undefined && scrollY > runTop()) scrollTo(0, middles[current] - anchor);
  keepReachable();
  requestDraw();
  remember();
}
function clearFilters() {
  at('find').value = '';
  for (const lane of lanes) lane.shown = true;
  refilter();
}

// ---- Lines between the events of one cause, for what is in sight.

let drawing = false;
function requestDraw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => { drawing = false; drawLinks(); drawOverview(); });
}
const runTop = () => at('run').getBoundingClientRect().top + scrollY;
function drawLinks() {
  const from = scrollY - runTop() - 200, to = from + innerHeight + 400;
  const width = at('run').clientWidth;
  const timeWidth = parseFloat(getComputedStyle(root).getPropertyValue('--time'));
  const x = (place) => timeWidth + (width - timeWidth) * laneOf[entries[place].lane].share;
  const paths = new Map();
  const join = (a, b) => {
    const link = entries[a].link;
    const path = paths.get(link) || { ends: new Set(), d: '' };
    paths.set(link, path);
    if (path.ends.has(b)) return;
    path.ends.add(b);
    const [x1, y1, x2, y2] = [x(a), middles[a], x(b), middles[b]];
    // Along a lane a line bows away from the chips, so that it is seen beside the lane's own.
    const bow = x1 === x2 ? (laneOf[entries[a].lane].rightward ? -1 : 1) * Math.min(26, 7 + (y2 - y1) / 12) : 0;
    const middle = x1 === x2 ? Math.min(30, (y2 - y1) / 3) : (y2 - y1) / 2;
    path.d += `M${x1} ${y1}C${x1 + bow} ${y1 + middle} ${x2 + bow} ${y2 - middle} ${x2} ${y2}`;
  };
  let low = 0, high = shown.length;
  while (low < high) {
    const half = (low + high) >> 1;
    if (middles[shown[half]] < from) low = half + 1; else high = half;
  }
  for (let index = low; index < shown.length && middles[shown[index]] <= to; index++) {
    const place = shown[index];
    if (before[place] !== undefined) join(before[place], place);
    if (after[place] !== undefined) join(place, after[place]);
  }
  // Of the cause that is looked at also the lines that only pass through.
  const link = current === null ? undefined : entries[current].link;
  if (link !== undefined) {
    for (const place of shown) {
      const next = after[place];
      if (next !== undefined && entries[place].link === link && middles[place] < from && middles[next] > to) join(place, next);
    }
  }
  at('links').replaceChildren(...[...paths].map(([number, { d }]) => {
    const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    path.setAttribute('d', d);
    path.style.setProperty('--hue', hue(number));
    if (number === link) path.classList.add('same');
    return path;
  }));
}

// ---- The whole run, small: what is where, where it broke, and what part is in sight.

// The ticks are drawn once for a layout and a choice; scrolling moves the frame over them.
let ticks = null;
function drawOverview() {
  const canvas = at('overview'), scale = devicePixelRatio || 1;
  const width = Math.round(canvas.clientWidth * scale), height = Math.round(canvas.clientHeight * scale);
  if (!width || !height) return;
  if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; ticks = null; }
  const colors = getComputedStyle(root), color = (name) => colors.getPropertyValue(name).trim();
  const paint = canvas.getContext('2d'), reach = overviewReach();
  ticks ??= drawTicks(width, height, scale, reach, color);
  paint.clearRect(0, 0, width, height);
  paint.drawImage(ticks, 0, 0);
  const top = (scrollY + at('tools').offsetHeight + at('lanes').offsetHeight - runTop()) / reach * height;
  paint.globalAlpha = .13;
  paint.fillStyle = color('--ink');
  paint.fillRect(0, top, width, innerHeight / reach * height);
  paint.globalAlpha = 1;
}
// A short run is not stretched: a row of it is at most a few pixels.
const overviewReach = () => Math.max(at('events').clientHeight, at('overview').clientHeight * 4);
function drawTicks(width, height, scale, reach, color) {
  const canvas = document.createElement('canvas');
  canvas.width = width; canvas.height = height;
  const paint = canvas.getContext('2d'), thick = Math.max(scale, ROW * .6 / reach * height);
  const colors = Object.fromEntries(lanes.map((lane) => [lane.lane, color(`--${lane.lane}`)]));
  const link = pinned ? entries[current].link : undefined;
  for (const place of shown) {
    const { lane, link: own } = entries[place];
    paint.globalAlpha = link === undefined || own === link ? .9 : .2;
    paint.fillStyle = colors[lane];
    const x = 5 * scale + (width - 10 * scale) * laneOf[lane].share;
    paint.fillRect(Math.round(x - 2 * scale), Math.round(middles[place] / reach * height - thick / 2), 4 * scale, thick);
  }
  paint.globalAlpha = 1;
  if (markRow) {
    const y = (markRow.parentNode.offsetTop + parseFloat(markRow.style.top) + MARK / 2) / reach * height;
    paint.fillStyle = color('--red');
    paint.fillRect(0, Math.round(y - scale), width, 2 * scale);
    paint.beginPath();
    paint.moveTo(0, y - 5 * scale); paint.lineTo(6 * scale, y); paint.lineTo(0, y + 5 * scale);
    paint.fill();
  }
  return canvas;
}
function listenOverview() {
  const canvas = at('overview');
  const go = (event) => {
    const share = (event.clientY - canvas.getBoundingClientRect().top) / canvas.clientHeight;
    scrollTo(0, runTop() + share * overviewReach() - innerHeight * .42);
  };
  canvas.addEventListener('pointerdown', (event) => { canvas.setPointerCapture(event.pointerId); go(event); });
  canvas.addEventListener('pointermove', (event) => { if (event.buttons & 1) go(event); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { ticks = null; requestDraw(); });
}

// ---- The event that is looked at.

let current = null, pinned = false, reachable = null, same = [];
const causes = new Map();
entries.forEach((entry, place) => {
  if (entry.link === undefined) return;
  if (!causes.has(entry.link)) causes.set(entry.link, []);
  causes.get(entry.link).push(place);
});
function look(place, pin) {
  if (current !== null) rows[current].row.classList.remove('current');
  for (const other of same) rows[other].row.classList.remove('same');
  if (pinned || pin) ticks = null;
  current = place; pinned = place !== null && pin;
  same = place === null || entries[place].link === undefined ? [] : causes.get(entries[place].link);
  for (const other of same) rows[other].row.classList.add('same');
  if (place !== null) rows[place].row.classList.add('current');
  at('run').classList.toggle('chosen', pinned && same.length > 1);
  keepReachable();
  drawPanel();
  requestDraw();
}
// One chip at a time is in the order of the Tab key; the arrow keys move among them.
function keepReachable() {
  if (reachable !== null) rows[reachable].row.lastChild.tabIndex = -1;
  reachable = current !== null && middles[current] !== undefined ? current : shown.length ? shown[0] : null;
  if (reachable !== null) rows[reachable].row.lastChild.tabIndex = 0;
}
function goTo(place, pin) {
  if (middles[place] === undefined) clearFilters();
  look(place, pin);
  const y = middles[place] + runTop(), top = scrollY + 110, bottom = scrollY + innerHeight - 60;
  if (y < top || y > bottom) scrollTo(0, y - innerHeight * .42);
  rows[place].row.lastChild.focus({ preventScroll: true });
  remember();
}
function toBroken() {
  if (mark !== null && markIsHere) {
    goTo(mark, true);
    scrollTo(0, middles[mark] + runTop() - innerHeight * .42);
  } else if (markRow) markRow.scrollIntoView();
}
function drawPanel() {
  const panel = at('panel');
  panel.scrollTop = 0;
  if (current === null) return panel.replaceChildren(...help());
  const entry = entries[current], lane = laneOf[entry.lane];
  panel.className = `lane-${entry.lane}`;
  panel.style.setProperty('--hue', entry.link === undefined ? '0' : hue(entry.link));
  const where = make('div', 'where');
  where.append(make('span', '', `${lane.heading} \u00b7 event ${current + page.first + 1} of ${page.of}`));
  const place = current;
  where.append(pinned ? button('pin', 'unpin (Esc)', () => { look(place, false); remember(); }) : make('span', '', 'click pins'));
  const times = make('dl');
  const fact = (name, value) => times.append(make('dt', '', name), make('dd', '', value));
  fact('time', `${ms(entry.at_us)} ms`);
  if (current > 0) fact('after the event before', span(Math.max(0, entry.at_us - entries[current - 1].at_us)));
  const parts = [where, make('h2', '', entry.kind), make('p', 'words', entry.words)];
  if (current === mark && page.broken) {
    const wrong = make('p', 'wrong');
    wrong.append(make('b', '', `Rule ${page.broken.rule} broken. `), page.broken.words);
    parts.push(wrong);
  }
  parts.push(times);
  if (entry.detail) parts.push(...detail(entry.detail));
  if (same.length > 1) parts.push(...cause(entry.link));
  panel.replaceChildren(...parts);
}
// While one event is pinned, what is pointed at is measured from it.
function measure(place) {
  const panel = at('panel'), old = panel.querySelector('.measure');
  if (old) old.remove();
  if (place === current) return;
  const { lane, kind, words, at_us } = entries[place], apart = at_us - entries[current].at_us;
  const line = make('p', 'measure');
  line.append(
    make('b', '', `${apart < 0 ? '-' : '+'}${ms(Math.abs(apart))} ms`), ` from here: ${laneOf[lane].heading}, ${kind} ${words}`,
  );
  panel.insertBefore(line, panel.firstChild.nextSibling);
}
function help() {
  const keys = make('dl', 'keys');
  const tell = (key, what) => keys.append(make('dt', '', key), make('dd', '', what));
  tell('\u2191 \u2193', 'the event before, after');
  tell('\u2190 \u2192', 'the one before, after of the same cause');
  tell('Enter', 'pin and unpin; Esc unpins');
  tell('/', 'find; #3 finds the events of cause 3');
  if (page.broken) tell('b', 'where it broke');
  tell('pinned', 'pointing at another event measures the time between');
  return [make('p', 'words', 'Point at an event to see the row or frame, whole.'), keys];
}
function detail(text) {
  const head = make('h3', '', 'row or frame');
  if (navigator.clipboard) head.append(copier(text));
  const pre = make('pre');
  pre.append(...laidOut(text));
  return [head, pre];
}
function cause(link) {
  const list = make('ol');
  const here = same.indexOf(current);
  const from = Math.max(0, Math.min(here - CAUSE_ROWS_MAX / 2, same.length - CAUSE_ROWS_MAX));
  const to = Math.min(same.length, from + CAUSE_ROWS_MAX);
  if (from > 0) list.append(make('li', 'more', `${from} earlier`));
  for (const place of same.slice(from, to)) {
    const entry = entries[place], item = make('li'), go = button('', undefined, () => goTo(place, true));
    const first = entries[same[0]].at_us;
    const since = entry.at_us - first;
    go.append(
      make('span', 'after', place === same[0] ? ms(first) : `+${ms(since)}`),
      make('span', `kind lane-${entry.lane}`, entry.kind),
      make('span', 'text', entry.words),
    );
    go.setAttribute('aria-current', String(place === current));
    item.append(go);
    list.append(item);
  }
  if (to < same.length) list.append(make('li', 'more', `${same.length - to} later`));
  return [make('h3', '', `same cause: #${link}, ${count(same.length, 'event')}`), list];
}

// JSON is laid out token by token and never printed anew, so that what is shown is what was written.
function laidOut(text) {
  const lines = text.split('\n').filter((line) => line.trim());
  const isJson = (part) => { try { return typeof JSON.parse(part) === 'object'; } catch { return false; } };
  if (isJson(text)) return tokens(text);
  if (lines.length > 1 && lines.every(isJson)) return lines.flatMap((line) => [...tokens(line), '\n']);
  return [text];
}
function tokens(json) {
  const out = [], found = json.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) || [];
  let depth = 0;
  const newLine = () => out.push('\n' + '  '.repeat(depth));
  found.forEach((token, place) => {
    const next = found[place + 1];
    if (token === '{' || token === '[') {
      out.push(token);
      depth++;
      if (next !== '}' && next !== ']') newLine();
    } else if (token === '}' || token === ']') {
      depth--;
      if (!'{['.includes(found[place - 1])) newLine();
      out.push(token);
    } else if (token === ',') { out.push(token); newLine(); }
    else if (token === ':') out.push(': ');
    else {
      const kind = token[0] === '"' ? (next === ':' ? 'key' : 'string') : /^[-\d]/.test(token) ? 'number' : 'word';
      out.push(make('span', kind, token));
    }
  });
  return out;
}

// ---- What is looked at is in the address, so that a place can be handed on.

function remember() {
  const state = new URLSearchParams();
  if (pinned) state.set('e', String(current + page.first));
  if (at('find').value) state.set('find', at('find').value);
  const hide = lanes.filter((lane) => !lane.shown).map((lane) => lane.lane);
  if (hide.length) state.set('hide', hide.join(','));
  const words = state.toString();
  try { history.replaceState(null, '', words ? `#${words}` : location.pathname + location.search); } catch { /* not from here */ }
}
function recall() {
  const state = new URLSearchParams(location.hash.slice(1));
  at('find').value = state.get('find') || '';
  const hide = (state.get('hide') || '').split(',');
  for (const lane of lanes) lane.shown = !hide.includes(lane.lane);
  const asked = state.get('e');
  refilter();
  const place = Number(asked) - page.first;
  if (asked !== null && Number.isInteger(place) && place >= 0 && place < entries.length) goTo(place, true);
}

// ---- Mouse and keys.

const placeAt = (target) => {
  const row = target.closest ? target.closest('.event') : null;
  return row ? Number(row.dataset.place) : null;
};
function listen() {
  at('events').addEventListener('mouseover', (event) => {
    const place = placeAt(event.target);
    if (place === null) return;
    if (pinned) measure(place); else if (place !== current) look(place, false);
  });
  at('events').addEventListener('focusin', (event) => {
    const place = placeAt(event.target);
    if (place !== null && !pinned && place !== current) look(place, false);
  });
  at('events').addEventListener('click', (event) => {
    const place = placeAt(event.target);
    if (place === null) return;
    look(place, !(pinned && place === current));
    remember();
  });
  let wait = 0;
  at('find').addEventListener('input', () => { clearTimeout(wait); wait = setTimeout(refilter, entries.length > 2_000 ? 150 : 0); });
  at('clear').addEventListener('click', clearFilters);
  addEventListener('scroll', requestDraw, { passive: true });
  addEventListener('resize', requestDraw);
  addEventListener('hashchange', recall);
  addEventListener('keydown', press);
}
function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target === at('find');
  if (event.key === 'Escape') {
    if (typing) { at('find').value = ''; at('find').blur(); refilter(); } else if (current !== null) { look(pinned ? current : null, false); remember(); }
    return;
  }
  if (typing) return;
  const move = {
    ArrowDown: () => step(1), j: () => step(1), ArrowUp: () => step(-1), k: () => step(-1),
    ArrowRight: () => current !== null && after[current] !== undefined && goTo(after[current], pinned),
    ArrowLeft: () => current !== null && before[current] !== undefined && goTo(before[current], pinned),
    '/': () => at('find').focus(),
    b: toBroken,
  }[event.key];
  if (!move) return;
  event.preventDefault();
  move();
}
function step(by) {
  if (!shown.length) return;
  let index = current === null ? -1 : shown.indexOf(current);
  if (index < 0) index = by > 0 ? -1 : shown.length;
  const next = shown[index + by];
  if (next !== undefined) goTo(next, pinned);
}

drawHead();
drawLanes();
drawEvents();
at('page').hidden = false;
listen();
listenOverview();
recall();
if (current === null) look(null, false);
drawLinks();
drawOverview();
root.dataset.ready = `${entries.length} events`;
})();
