//! The platform layer on a world: what the library's shipping code believes to be its machine.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use moored::platform::{
    BoxFuture, ChildSpec, Exit, FilePattern, FileTail, Mono, Platform, ProcessIdentity,
    SPAWN_TOKEN_VARIABLE, SpawnError, SpawnedChild, Watched,
};

use crate::kernel::SharedKernel;
use crate::world::{
    AgentEnds, EndCloser, SUPERVISOR, SharedWorld, Sig, StartedWith, Starter, Tag, in_a_job, pipe,
    pipe_ending_late, supervised,
};

/// How often it is looked whether a child that was not identified is gone.
const UNIDENTIFIED_LOOK_US: u64 = 1_000;
/// Attempts to read a start time (rule 1.1.6).
const START_READS_MAX: u32 = 3;

struct HostProcess {
    world: SharedWorld,
    identity: ProcessIdentity,
    scope: SharedKernel,
    crashed: Watched<bool>,
    /// Its ends of agents' pipes, which the operating system closes when it dies.
    ends: Mutex<Vec<EndCloser>>,
}

/// One host process of a world, as a platform. Clones are the same process.
#[derive(Clone)]
pub struct SimPlatform(Arc<HostProcess>);

impl SimPlatform {
    /// Starts a host process.
    pub fn start(world: &SharedWorld, name: &str) -> Self {
        let (identity, scope) = world.admit_host(name);
        Self(Arc::new(HostProcess {
            world: Arc::clone(world),
            identity,
            scope,
            crashed: Watched::new(false),
            ends: Mutex::default(),
        }))
    }

    /// The world it is in: choices and sleep for a simulated store come from its kernel.
    pub fn world(&self) -> &SharedWorld {
        &self.0.world
    }

    /// The host's scope: what runs in it ends with the host.
    pub fn scope(&self) -> &SharedKernel {
        &self.0.scope
    }

    /// Who the host is.
    pub fn identity(&self) -> &ProcessIdentity {
        &self.0.identity
    }

    /// The host is killed, between two steps of its tasks. Its ends of all pipes are closed; its supervisors live on.
    pub fn crash(&self) {
        let host = &self.0;
        if host.crashed.get() {
            return;
        }
        host.world.note("host.crash", format_args!("{}", Tag(host.identity.pid)));
        host.scope.kill_scope();
        let ends = std::mem::take(&mut *host.ends.lock().unwrap_or_else(PoisonError::into_inner));
        ends.iter().for_each(EndCloser::close);
        host.world.end_process(&host.identity, Exit::Signal(9));
        host.crashed.update(|crashed| *crashed = true);
    }

    fn hold(&self, ends: impl IntoIterator<Item = EndCloser>) {
        let mut held = self.0.ends.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|end| !end.is_gone());
        held.extend(ends);
    }

    async fn start_child(self, spec: ChildSpec) -> Result<SpawnedChild, SpawnError> {
        let world = &self.0.world;
        let options = world.options();
        self.pause(options.spawn_us_max).await;
        let named = spec.argv.first().cloned().unwrap_or_default();
        let Some(program) = world.programs().find(&named) else {
            return Err(SpawnError::NotFound { program: named });
        };
        if world.is_folder_missing(&spec.cwd) {
            let reason = "no such file or directory".to_owned();
            return Err(SpawnError::Workspace { cwd: spec.cwd, reason });
        }
        let refused_one_in = options.supervisor_refused_one_in;
        if !options.is_win32() && self.0.scope.one_in("process.no_supervisor", refused_one_in) {
            let reason = "resource temporarily unavailable".to_owned();
            return Err(SpawnError::Supervisor { reason });
        }
        let kernel = || Arc::clone(world.kernel());
        let (stdin, agent_stdin) = pipe(kernel(), options.pipe_us_max);
        let heard = || pipe_ending_late(kernel(), options.pipe_us_max, options.pipe_end_us_max);
        let ((agent_stdout, stdout), (agent_stderr, stderr)) = (heard(), heard());
        let ends = AgentEnds { stdin: agent_stdin, stdout: agent_stdout, stderr: agent_stderr };
        self.hold([stdin.closer(), stdout.closer(), stderr.closer()]);
        let starter = Starter { host: self.0.identity.clone(), crashed: self.0.crashed.clone() };
        let with = self.started_with(&spec);
        let started = match options.is_win32() {
            true => in_a_job(world, &starter, &spec, with, program, ends),
            false => supervised(world, &starter, &spec, with, program, ends),
        };
        if self.read_start_time().await.is_err() {
            self.end_unidentified(spec.token.as_str()).await;
            return Err(SpawnError::Unidentified);
        }
        Ok(SpawnedChild {
            identity: started.identity,
            stdin: Box::pin(stdin),
            stdout: Box::pin(stdout),
            stderr: Box::pin(stderr),
            orders: started.orders,
            reports: started.reports,
        })
    }

    fn started_with(&self, spec: &ChildSpec) -> StartedWith {
        let mut environment = self.0.world.options().host_environment.clone();
        environment.retain(|name, _| !spec.drop_env.contains(name));
        environment.extend(spec.set_env.iter().cloned());
        environment.insert(SPAWN_TOKEN_VARIABLE.to_owned(), spec.token.as_str().to_owned());
        StartedWith { argv: spec.argv.clone(), environment, cwd: spec.cwd.clone() }
    }

    /// Whoever started it ends it before it says so: nobody could recognise it again.
    async fn end_unidentified(&self, token: &str) {
        let world = &self.0.world;
        loop {
            let mut left = world.living_with_token(token);
            left.retain(|process| process.name != SUPERVISOR);
            if left.is_empty() {
                return;
            }
            left.iter().for_each(|process| world.strike(&process.identity, Sig::Kill));
            self.0.scope.sleep_us(UNIDENTIFIED_LOOK_US).await;
        }
    }

    async fn read_start_time(&self) -> Result<(), SpawnError> {
        let options = self.0.world.options();
        for _ in 0..START_READS_MAX {
            self.pause(options.control_us_max).await;
            if !self.0.scope.one_in("process.start_unreadable", options.start_unreadable_one_in) {
                return Ok(());
            }
        }
        Err(SpawnError::Unidentified)
    }

    async fn pause(&self, us_max: u64) {
        let us = self.0.scope.choose("process.spawn_us", us_max);
        self.0.scope.sleep_us(us).await;
    }
}

impl Platform for SimPlatform {
    fn now(&self) -> Mono {
        self.0.scope.now()
    }

    fn wall_ms(&self) -> u64 {
        self.0.world.wall_ms()
    }

    fn sleep_until(&self, at: Mono) -> BoxFuture<()> {
        self.0.world.timer(at)
    }

    fn spawn_task(&self, name: &'static str, task: BoxFuture<()>) {
        self.0.scope.spawn(name, task);
    }

    fn spawn_child(&self, spec: ChildSpec) -> BoxFuture<Result<SpawnedChild, SpawnError>> {
        Box::pin(self.clone().start_child(spec))
    }

    fn read_tail(&self, pattern: FilePattern, bytes_max: u64) -> BoxFuture<FileTail> {
        let platform = self.clone();
        Box::pin(async move {
            let us_max = platform.0.world.options().file_us_max;
            let us = platform.0.scope.choose("process.look_us", us_max);
            platform.0.scope.sleep_us(us).await;
            let files = platform.0.world.files();
            let mut found = files.iter().filter(|path| pattern.matches(path));
            let path = match (found.next(), found.next()) {
                (None, _) => return FileTail::Missing,
                (Some(path), None) => path,
                _ => return FileTail::Unreadable,
            };
            let Some(mut bytes) = platform.0.world.file(path) else { return FileTail::Missing };
            let from = bytes.len().saturating_sub(usize::try_from(bytes_max).unwrap_or(usize::MAX));
            bytes.drain(..from);
            FileTail::Read { bytes, whole: from == 0 }
        })
    }

    fn entropy(&self) -> [u8; 16] {
        self.0.world.entropy()
    }

    fn event(&self, what: &'static str, detail: fmt::Arguments<'_>) {
        self.0.world.note(what, format_args!("{} {detail}", Tag(self.0.identity.pid)));
    }
}
