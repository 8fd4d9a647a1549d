//! Making a JSON value smaller while it still fails.

use std::collections::BTreeSet;

use serde_json::Value;

/// Where the parts of a value are, as JSON pointers.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Lists whose elements may go.
    pub lists: &'a [&'a str],
    /// The list of recorded choices, each with a `label` and a `value`.
    pub tape: &'a str,
    /// Trees in which any member, element or number may go or become smaller.
    pub trees: &'a [&'a str],
}

/// Candidates are tried in this order until a whole round changes nothing.
const ROUNDS_MAX: usize = 12;
/// Numbers up to this are tried one by one below it; larger ones are bisected.
const SMALL: u64 = 4;

/// Makes `value` smaller. `fails` plays a candidate: `None` when it is no value of its kind, which costs nothing, else
/// whether it fails in the same way; the last value for which it did is the smallest one. Gives how many candidates were
/// played, and whether `replays_max` ended it.
pub fn shrink_value(
    value: Value,
    plan: &Plan<'_>,
    replays_max: usize,
    fails: &mut dyn FnMut(&Value) -> Option<bool>,
) -> (usize, bool) {
    let mut shrinking = Shrinking { best: value, replays: 0, replays_max, fails };
    for _ in 0..ROUNDS_MAX {
        let before = shrinking.best.clone();
        shrinking.labels(plan.tape);
        plan.lists.iter().for_each(|list| shrinking.elements(list));
        plan.trees.iter().for_each(|tree| shrinking.prune(tree));
        shrinking.elements(plan.tape);
        plan.trees.iter().for_each(|tree| shrinking.numbers(tree));
        shrinking.numbers(plan.tape);
        if shrinking.best == before || shrinking.is_spent() {
            break;
        }
    }
    let spent = shrinking.is_spent();
    (shrinking.replays, spent)
}

struct Shrinking<'a> {
    best: Value,
    replays: usize,
    replays_max: usize,
    fails: &'a mut dyn FnMut(&Value) -> Option<bool>,
}

impl Shrinking<'_> {
    fn is_spent(&self) -> bool {
        self.replays >= self.replays_max
    }

    /// Keeps `candidate` if it fails too.
    fn take(&mut self, candidate: Value) -> bool {
        if self.is_spent() || candidate == self.best {
            return false;
        }
        match (self.fails)(&candidate) {
            None => false,
            Some(fails) => {
                self.replays += 1;
                if fails {
                    self.best = candidate;
                }
                fails
            }
        }
    }

    fn list(&self, at: &str) -> Vec<Value> {
        self.best.pointer(at).and_then(Value::as_array).cloned().unwrap_or_default()
    }

    fn with(&self, at: &str, put: Value) -> Value {
        let mut candidate = self.best.clone();
        if let Some(place) = candidate.pointer_mut(at) {
            *place = put;
        }
        candidate
    }

    /// Drops every choice of a concern, then of a label: what has nothing to do with the failure goes at once.
    fn labels(&mut self, tape: &str) {
        let label = |choice: &Value| choice["label"].as_str().unwrap_or_default().to_owned();
        let concern =
            |choice: &Value| label(choice).split('.').next().unwrap_or_default().to_owned();
        for name in [&concern as &dyn Fn(&Value) -> String, &label] {
            let names: BTreeSet<String> = self.list(tape).iter().map(name).collect();
            for gone in names {
                let kept = self.list(tape).into_iter().filter(|choice| name(choice) != gone);
                let candidate = self.with(tape, kept.collect());
                self.take(candidate);
            }
        }
    }

    /// Drops halves of a list, then quarters, down to single elements.
    fn elements(&mut self, at: &str) {
        let mut size = self.list(at).len().div_ceil(2);
        while size > 0 {
            let mut from = 0;
            while from < self.list(at).len() {
                let mut kept = self.list(at);
                let to = (from + size).min(kept.len());
                kept.drain(from..to);
                let candidate = self.with(at, kept.into());
                if !self.take(candidate) {
                    from += size;
                }
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
    }

    /// Drops members and elements, the outermost first. What the kind of the value cannot miss is not played at all.
    fn prune(&mut self, tree: &str) {
        let mut waiting = vec![tree.to_owned()];
        while let Some(at) = waiting.pop() {
            let names: Vec<String> = match self.best.pointer(&at) {
                Some(Value::Object(members)) => members.keys().map(|name| escaped(name)).collect(),
                // From the end, so that the places of the others stay.
                Some(Value::Array(all)) => (0..all.len()).rev().map(|n| n.to_string()).collect(),
                _ => continue,
            };
            for name in names {
                let child = format!("{at}/{name}");
                let mut candidate = self.best.clone();
                remove(&mut candidate, &at, &name);
                if !self.take(candidate) {
                    waiting.push(child);
                }
            }
        }
    }

    /// Makes every number smaller, and every text empty.
    fn numbers(&mut self, tree: &str) {
        let mut leaves = Vec::new();
        if let Some(value) = self.best.pointer(tree) {
            collect(value, tree, &mut leaves);
        }
        for at in leaves {
            match self.best.pointer(&at).cloned() {
                Some(Value::Number(number)) => match number.as_i64() {
                    Some(n) if n != 0 => self.lower(&at, n),
                    _ => {}
                },
                Some(Value::String(text)) if !text.is_empty() => {
                    let candidate = self.with(&at, Value::from(""));
                    self.take(candidate);
                }
                _ => {}
            }
        }
    }

    /// The least magnitude with the same sign that still fails, by bisection between what fails and what does not.
    fn lower(&mut self, at: &str, number: i64) {
        let sign = number.signum();
        let put = |shrinking: &mut Self, magnitude: u64| {
            let magnitude = i64::try_from(magnitude).unwrap_or(i64::MAX);
            let candidate = shrinking.with(at, Value::from(sign * magnitude));
            shrinking.take(candidate)
        };
        let mut fails = number.unsigned_abs();
        if put(self, 0) {
            return;
        }
        let mut holds = 0;
        while fails - holds > 1 && !self.is_spent() {
            let middle = if fails <= SMALL { holds + 1 } else { holds + (fails - holds) / 2 };
            if put(self, middle) { fails = middle } else { holds = middle }
        }
    }
}

fn collect(value: &Value, at: &str, leaves: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                // The place of a choice and the number of its ways are its name, not its size.
                if !matches!(name.as_str(), "k" | "n" | "label" | "v") {
                    collect(member, &format!("{at}/{}", escaped(name)), leaves);
                }
            }
        }
        Value::Array(all) => {
            for (n, element) in all.iter().enumerate() {
                collect(element, &format!("{at}/{n}"), leaves);
            }
        }
        Value::Number(_) | Value::String(_) => leaves.push(at.to_owned()),
        Value::Bool(_) | Value::Null => {}
    }
}

/// A name as a JSON pointer writes it.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn remove(value: &mut Value, at: &str, name: &str) {
    match value.pointer_mut(at) {
        Some(Value::Object(members)) => {
            members.remove(&name.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(all)) => {
            if let Ok(n) = name.parse::<usize>()
                && n < all.len()
            {
                all.remove(n);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLAN: Plan<'static> =
        Plan { lists: &["/actions"], tape: "/tape", trees: &["/script", "/actions"] };

    /// The smallest value for which `fails` holds, and what it took.
    fn smallest(
        value: Value,
        replays_max: usize,
        fails: impl Fn(&Value) -> bool,
    ) -> (Value, usize, bool) {
        let mut best = value.clone();
        let mut judge = |candidate: &Value| {
            let failed = fails(candidate);
            if failed {
                best = candidate.clone();
            }
            Some(failed)
        };
        let (replays, spent) = shrink_value(value, &PLAN, replays_max, &mut judge);
        (best, replays, spent)
    }

    fn big() -> Value {
        let tape: Vec<Value> = (0..60)
            .map(|k| json!({"label": if k % 2 == 0 { "process.cut" } else { "store.us" }, "k": k, "n": 9, "value": 7}))
            .collect();
        let actions: Vec<Value> = (0..20).map(|n| json!({"do": n, "ms": 5_000})).collect();
        json!({"actions": actions, "script": {"a": [1, 2, {"b": 900}], "c": "text", "on/off": true}, "tape": tape})
    }

    #[test]
    fn what_the_failure_does_not_need_goes_and_numbers_come_down() {
        let needs = |value: &Value| {
            let has = |n: i64| {
                value["actions"].as_array().is_some_and(|all| all.iter().any(|a| a["do"] == n))
            };
            let chosen = value["tape"].as_array().is_some_and(|all| {
                all.iter().any(|c| {
                    c["label"] == "store.us" && c["k"] == 31 && c["value"].as_i64() >= Some(3)
                })
            });
            has(4) && has(17) && chosen && value["script"]["a"][0].is_number()
        };
        let (best, replays, spent) = smallest(big(), 4_000, needs);
        assert_eq!(best["tape"], json!([{"label": "store.us", "k": 31, "n": 9, "value": 3}]));
        assert_eq!(best["actions"], json!([{"do": 4}, {"do": 17}]));
        assert_eq!(best["script"], json!({"a": [0]}));
        assert!(!spent && replays < 200, "{replays} replays");
    }

    #[test]
    fn the_limit_on_replays_is_kept_and_told() {
        let (_, replays, spent) = smallest(big(), 10, |_| false);
        assert_eq!((replays, spent), (10, true));
    }

    #[test]
    fn what_is_no_value_of_its_kind_is_not_played() {
        let mut judge = |candidate: &Value| candidate["script"].is_object().then_some(false);
        let value = json!({"actions": [], "script": {}, "tape": []});
        assert_eq!(shrink_value(value, &PLAN, 100, &mut judge), (0, false));
    }

    #[test]
    fn a_negative_number_comes_closer_to_nothing() {
        let value = json!({"actions": [{"us": -5_000}], "script": {}, "tape": []});
        let (best, ..) =
            smallest(value, 1_000, |v| v["actions"][0]["us"].as_i64().is_some_and(|us| us <= -700));
        assert_eq!(best["actions"][0]["us"], -700);
    }
}
