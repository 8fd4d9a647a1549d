//! Scripted ACP agents: what an agent does is a document, and one interpreter plays it.
//!
//! A [`Script`] says how an agent answers, stalls, lies, crashes and ends; `{}` is a well-behaved agent that
//! echoes. [`run`] plays a script on a [`Body`], which is what a process can do to the machine it lives on. A
//! simulated world gives one body, [`native`] gives the other (real pipes, real signals, real children), and the
//! interpreter between them is the same code: it has no clock, no task, no thread and no randomness of its own, and
//! it needs no runtime.
//!
//! [`persona`] looks up a ready-made script by name. The language is described in `docs/agent-script.md`.

mod body;
mod interpreter;
#[cfg(all(feature = "bin", unix))]
pub mod native;
mod personas;
pub mod script;

#[cfg(all(feature = "bin", unix))]
pub use native::main_with_args;

pub use body::{Body, End, Fork, Group, Out, Signal, Stream};
pub use interpreter::{
    HOME_VARIABLE, LINE_BYTES_MAX, PROFILE_VARIABLE, PROMPTS_QUEUED_MAX, STRANDS_MAX, run,
};
pub use personas::{PERSONAS, Persona, persona};
pub use script::{Script, ScriptError};

#[cfg(all(feature = "bin", not(unix)))]
compile_error!("the fake-agent program needs a unix system; build with default-features = false");
