//! A permission is answered with what the agent offered, or cancelled.

use std::collections::BTreeMap;

use moored::platform::Mono;
use serde::Deserialize;

use super::{Oracle, Verdict};
use crate::witness::{ChildNo, Facts, Line, Seen, Shape};

/// Nobody makes up an option, and nobody chooses for a person.
#[derive(Default)]
pub(super) struct AnsweredPermissions {
    /// What the open requests of each id offer.
    offered: BTreeMap<ChildNo, BTreeMap<String, Open>>,
}

/// Agents may use an id again before they have read its answer, and the second may be answered first: whose an answer is
/// that selects nothing, nobody can tell.
#[derive(Default)]
struct Open {
    offers: Vec<Vec<String>>,
    unanswered: usize,
}

impl Open {
    fn asked(&mut self, options: Vec<String>) {
        if self.unanswered == 0 {
            self.offers.clear();
        }
        self.unanswered += 1;
        self.offers.push(options);
    }
}

fn options(line: &Line<'_>) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    struct Ask {
        params: Params,
    }
    #[derive(Deserialize)]
    struct Params {
        options: Vec<Choice>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Choice {
        option_id: String,
    }
    let ask = serde_json::from_slice::<Ask>(line.bytes).ok()?;
    Some(ask.params.options.into_iter().map(|choice| choice.option_id).collect())
}

/// The option an answer selects; none if it selects none; an error if it is no answer to a permission.
fn selected(line: &Line<'_>) -> Result<Option<String>, String> {
    #[derive(Deserialize)]
    struct Answer {
        result: Option<Chosen>,
    }
    #[derive(Deserialize)]
    struct Chosen {
        outcome: Outcome,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Outcome {
        outcome: String,
        option_id: Option<String>,
    }
    let answer = serde_json::from_slice::<Answer>(line.bytes).map_err(|e| e.to_string())?;
    let Some(Chosen { outcome }) = answer.result else { return Ok(None) };
    match (outcome.outcome.as_str(), outcome.option_id) {
        ("cancelled", None) => Ok(None),
        ("selected", Some(option)) => Ok(Some(option)),
        (other, _) => Err(format!("the outcome {other} is none")),
    }
}

impl Oracle for AnsweredPermissions {
    fn name(&self) -> &'static str {
        "answered-permissions"
    }

    fn rule(&self) -> &'static str {
        "9.3"
    }

    fn see(&mut self, _now: Mono, seen: &Seen<'_>, _facts: &Facts) -> Verdict {
        match seen {
            Seen::AgentWrote { child, line, .. }
                if line.method() == Some("session/request_permission") =>
            {
                if let (Some(id), Some(options)) = (line.id, options(line)) {
                    let of_child = self.offered.entry(*child).or_default();
                    of_child.entry(id.to_owned()).or_default().asked(options);
                }
            }
            Seen::HostWrote { child, line } if line.shape == Shape::Answer => {
                let Some(id) = line.id else { return Ok(()) };
                let asked = self.offered.get_mut(child).and_then(|asked| asked.get_mut(id));
                let Some(open) = asked.filter(|open| open.unanswered > 0) else { return Ok(()) };
                open.unanswered -= 1;
                match selected(line) {
                    Ok(Some(option))
                        if !open.offers.iter().any(|offer| offer.contains(&option)) =>
                    {
                        return Err(format!(
                            "permission {id} of child {child} is answered {option}, which it did not offer"
                        ));
                    }
                    Err(words) => {
                        return Err(format!(
                            "permission {id} of child {child} gets no answer by the protocol: {words}"
                        ));
                    }
                    Ok(_) => {}
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::kit::Story;
    use super::*;

    fn answered(outcome: &str) -> Story {
        let asks = r#"{"id":7,"method":"session/request_permission","params":{"options":[{"optionId":"yes","name":"Yes"}]}}"#;
        let story = Story::of(AnsweredPermissions::default()).spawned(0).agent_wrote(0, asks);
        story.host_wrote(0, &format!(r#"{{"id":7,"result":{{"outcome":{outcome}}}}}"#))
    }

    #[test]
    fn what_was_offered_and_a_dismissal_hold() {
        answered(r#"{"outcome":"selected","optionId":"yes"}"#).holds();
        answered(r#"{"outcome":"cancelled"}"#).holds();
    }

    #[test]
    fn an_id_that_is_used_again_before_its_answer_was_read_is_two_requests() {
        let asks = |story: Story, option: &str| {
            let options = format!(r#"[{{"optionId":"{option}","name":"Yes"}}]"#);
            let params = format!(r#"{{"options":{options}}}"#);
            let line =
                format!(r#"{{"id":7,"method":"session/request_permission","params":{params}}}"#);
            story.agent_wrote(0, &line)
        };
        let answers = |story: Story, option: &str| {
            let outcome = format!(r#"{{"outcome":"selected","optionId":"{option}"}}"#);
            story.host_wrote(0, &format!(r#"{{"id":7,"result":{{"outcome":{outcome}}}}}"#))
        };
        let two =
            || asks(asks(Story::of(AnsweredPermissions::default()).spawned(0), "yes"), "certainly");
        answers(answers(two(), "yes"), "certainly").holds();
        answers(answers(two(), "certainly"), "yes").holds();
        let refused = |story: Story| story.host_wrote(0, r#"{"id":7,"error":{"code":-32600}}"#);
        answers(refused(two()), "yes").holds();
        answers(two(), "perhaps").breaks("which it did not offer");
    }

    #[test]
    fn an_option_nobody_offered_is_found() {
        answered(r#"{"outcome":"selected","optionId":"no"}"#)
            .breaks("answered no, which it did not");
        answered(r#"{"outcome":"whatever"}"#).breaks("no answer by the protocol");
    }
}
