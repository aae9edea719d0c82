//! Set-up: what must be on the machine before a cluster can start. JDKs, jars from Maven, compiled workload programs, CRIU.
//!
//! Called once per start of Warren, before any slot is opened. Everything made is kept in the cache under a name that
//! says what it was made from, so a second start needs neither Maven nor network. It starts no process of a target.

pub mod cache;
pub(crate) mod child;
pub mod criu;
mod debian;
mod error;
pub mod javac;
pub mod jdk;
pub mod lock;
pub mod maven;

pub use child::{stop, stopped};
pub use error::{DebianError, NoCriu, NoFetch, SetupError};
