//! Every entry of the workspace's clippy.toml, broken once. Nothing here is ever run.

#![warn(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

pub fn clocks() {
    let now = std::time::Instant::now();
    let _ = now.elapsed();
    let _ = std::time::SystemTime::now();
}

pub fn threads() {
    let _ = std::thread::spawn(|| {});
    std::thread::sleep(Duration::ZERO);
    let _ = std::thread::current();
}

pub fn process() {
    let _ = std::process::id();
    let _ = std::env::var("A");
    let _ = std::env::var_os("A");
    let _ = std::env::vars();
    let _ = std::env::vars_os();
    let _ = std::env::current_dir();
    let _ = std::env::current_exe();
    std::process::exit(0);
}

pub fn files() {
    let _ = std::fs::read("a");
    let _ = std::fs::write("a", "b");
    let _ = std::fs::rename("a", "b");
    let _ = std::fs::remove_file("a");
    let _ = std::fs::create_dir_all("a");
    let _ = std::fs::read_to_string("a");
    let _ = std::fs::read_dir("a");
    let _ = std::fs::File::open("a");
    let _ = std::fs::File::create("a");
    let _ = std::fs::OpenOptions::new().open("a");
}

pub async fn tasks() {
    let _ = tokio::spawn(async {});
    let _ = tokio::task::spawn_blocking(|| {});
    let _ = tokio::task::spawn_local(async {});
    tokio::task::yield_now().await;
    tokio::time::sleep(Duration::ZERO).await;
    let _ = tokio::time::timeout(Duration::ZERO, async {}).await;
    let _ = tokio::time::interval(Duration::ZERO);
    let now = tokio::time::Instant::now();
    tokio::time::sleep_until(now).await;
    let _ = tokio::time::interval_at(now, Duration::ZERO);
    let _ = tokio::sync::watch::channel(());
    let _ = tokio::sync::Barrier::new(1);
    let _ = getrandom::fill(&mut []);
}

pub async fn macros() {
    let _ = tokio::join!(async {}, async {});
    tokio::select! {
        _ = async {} => {}
        _ = async {} => {}
    }
}

std::thread_local! {
    pub static LOCAL: u8 = const { 0 };
}

pub struct Types {
    pub map: std::collections::HashMap<u8, u8>,
    pub set: std::collections::HashSet<u8>,
    pub state: std::hash::RandomState,
    pub instant: std::time::Instant,
    pub wall: std::time::SystemTime,
    pub command: std::process::Command,
    pub child: tokio::process::Command,
    pub tasks: tokio::task::JoinSet<()>,
    pub receiver: std::sync::mpsc::Receiver<()>,
    pub condition: std::sync::Condvar,
}
