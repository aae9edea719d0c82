//! End to end, as a user would: the canary cluster on every isolation level the kernel allows, real ZooKeeper, SIGKILL.
//!
//! Each test takes the one cluster lock (`warren_tests::cluster`), so they run one after another however many threads.

mod broken_snapshot;
mod canary;
mod compare;
mod kill;
mod slots;
mod snapshot;
mod tmin;
mod zookeeper;
