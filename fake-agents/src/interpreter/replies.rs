//! Answers: what a well-behaved agent would say, and every way of saying it wrong.

use serde_json::{Map, Value, json};

use super::perform::merge;
use super::strand::{Cue, Errand, Strand};
use super::{Agent, sessions};
use crate::body::Body;
use crate::script::step::{IdForm, Reply, To};
use crate::script::{Moment, SignIn};

impl<'s, B: Body> Agent<'s, '_, B> {
    pub(super) async fn reply(&mut self, strand: &mut Strand<'s>, reply: &Reply) {
        let cue = match (reply.to, &self.previous) {
            (To::This, _) => strand.cue.clone(),
            (To::PreviousTurn, Some(previous)) => previous.clone(),
            (To::PreviousTurn, None) => return,
        };
        let invented = matches!(reply.id, IdForm::Absent | IdForm::Null | IdForm::Other(_));
        if cue.id.is_none() && !invented {
            return; // there is nothing to answer
        }
        let error = reply.error.clone();
        let fails = error.as_ref().is_some_and(|error| !error.is_null())
            && reply.result.is_none()
            && reply.stop_reason.is_none();
        let mut frame = json!({ "jsonrpc": "2.0" });
        if let Some(id) = id_in_form(&reply.id, cue.id.as_ref()) {
            frame["id"] = id;
        }
        if fails {
            frame["error"] = error.unwrap_or_default();
            self.send(strand, frame, reply);
        } else {
            let natural = self.natural(strand, &cue, reply).await;
            match (&reply.result, natural) {
                (Some(result), _) => frame["result"] = result.clone(),
                (None, Ok(result)) => frame["result"] = result,
                (None, Err(error)) => frame["error"] = error,
            }
            if let Some(error) = error {
                frame["error"] = error;
            }
            self.before_reply(strand, &cue, reply).await;
            self.send(strand, frame, reply);
            self.after_reply(strand, &cue, reply);
        }
        if cue.method == "session/prompt"
            && let Some(turn) = self.turn.as_mut().filter(|turn| turn.cue.id == cue.id)
        {
            turn.over = true;
        }
    }

    fn send(&mut self, strand: &Strand<'s>, mut frame: Value, reply: &Reply) {
        merge(&mut frame, &reply.extra);
        self.fill(strand, &mut frame);
        for _ in 0..reply.times {
            self.frame(&frame);
        }
    }

    /// When what the answer stands for is written, and as what.
    fn to_persist(
        &self,
        strand: &Strand<'s>,
        cue: &Cue,
        reply: &Reply,
    ) -> Option<(Moment, Errand)> {
        let store = &self.script.store;
        let succeeded = matches!(strand.natural, Some(Ok(_)));
        match cue.method.as_str() {
            "session/prompt" if reply.to == To::This => {
                let word = reply.stop_reason.as_ref().and_then(Value::as_str);
                let entry = sessions::entry_stop_reason(word.unwrap_or("end_turn"));
                let moment = reply.persist.unwrap_or(store.persist_answer);
                Some((moment, Errand::PersistAnswer(entry.to_string())))
            }
            "session/new" if succeeded => {
                Some((reply.persist.unwrap_or(store.persist_new), Errand::PersistHeader))
            }
            _ => None,
        }
    }

    async fn before_reply(&mut self, strand: &mut Strand<'s>, cue: &Cue, reply: &Reply) {
        if let Some((Moment::Before, errand)) = self.to_persist(strand, cue, reply) {
            self.run_errand(strand, errand).await;
        }
        if cue.method == "session/load" && !self.script.store.replay.after_answer {
            self.replay(strand, cue).await;
        }
    }

    fn after_reply(&mut self, strand: &mut Strand<'s>, cue: &Cue, reply: &Reply) {
        if let Some((Moment::After, errand)) = self.to_persist(strand, cue, reply) {
            strand.errand = Some(errand);
        } else if cue.method == "session/load" && self.script.store.replay.after_answer {
            strand.errand = Some(Errand::Replay);
        }
        let opened =
            matches!(cue.method.as_str(), "session/load" | "session/new" | "session/resume");
        if opened && matches!(strand.natural, Some(Ok(_))) && !strand.opened {
            strand.opened = true;
            self.session.clone_from(&cue.session);
            let bootstrap = self.script.on.ready.as_ref().unwrap_or(&self.defaults.bootstrap);
            strand.append(bootstrap);
            self.arm_idle();
        }
    }

    /// The answer of a well-behaved agent, with its effects; worked out once for a request.
    async fn natural(
        &mut self,
        strand: &mut Strand<'s>,
        cue: &Cue,
        reply: &Reply,
    ) -> Result<Value, Value> {
        if cue.method == "session/prompt" {
            let reason = reply.stop_reason.clone().unwrap_or_else(|| json!("end_turn"));
            let mut result = json!({ "stopReason": reason });
            if let Some(usage) = &reply.usage {
                result["usage"] = usage.clone();
            }
            return Ok(result);
        }
        if let Some(natural) = &strand.natural {
            return natural.clone();
        }
        let natural = self.work_out(cue).await;
        strand.natural = Some(natural.clone());
        natural
    }

    async fn work_out(&mut self, cue: &Cue) -> Result<Value, Value> {
        let agent = &self.script.agent;
        match cue.method.as_str() {
            "authenticate" => {
                self.sign_in().await;
                Ok(json!({}))
            }
            "initialize" => {
                let about = json!({
                    "name": agent.name, "title": agent.title, "version": agent.version
                });
                Ok(Value::Object(Map::from_iter([
                    ("protocolVersion".to_owned(), agent.protocol_version.clone()),
                    ("agentInfo".to_owned(), about),
                    ("authMethods".to_owned(), agent.auth_methods.clone().into()),
                    ("agentCapabilities".to_owned(), agent.capabilities.clone()),
                ])))
            }
            "session/cancel" | "session/close" => Ok(json!({})),
            "session/load" | "session/resume" => {
                self.restore(cue).await?;
                Ok(self.session_result(None))
            }
            "session/new" => Ok(self.session_result(cue.session.as_deref())),
            method => Err(
                json!({ "code": -32601, "message": "Method not found", "data": { "method": method } }),
            ),
        }
    }

    fn session_result(&self, session: Option<&str>) -> Value {
        let mut result = Map::new();
        if let Some(session) = session {
            result.insert("sessionId".into(), json!(session));
        }
        result.extend(self.script.agent.session_result.clone());
        Value::Object(result)
    }

    async fn sign_in(&mut self) {
        match self.script.agent.sign_in {
            SignIn::Never | SignIn::NotNeeded => {}
            SignIn::UntilAuthenticate => {
                self.signed_in = true;
                self.keep_credentials().await;
            }
            SignIn::UntilRespawn => self.keep_credentials().await,
        }
    }
}

fn id_in_form(form: &IdForm, id: Option<&Value>) -> Option<Value> {
    let id = id.cloned().unwrap_or_default();
    match form {
        IdForm::Absent => None,
        IdForm::Float => Some(id.as_f64().map_or(id, |number| json!(number))),
        IdForm::Null => Some(Value::Null),
        IdForm::Other(other) => Some(other.clone()),
        IdForm::Same => Some(id),
        IdForm::String => Some(match id {
            Value::String(text) => Value::String(text),
            other => Value::String(other.to_string()),
        }),
    }
}
