//! What all verbs share: flags, exit codes and errors, a target that is set up for them, Ctrl-C, sequence files, folders of campaigns.
//!
//! Called by the verbs and, for the flags, by `verbs`. Calls no verb.

pub mod args;
pub mod campaigns;
pub mod exit;
pub mod parent;
pub mod program;
pub mod sequence_file;
pub mod session;
pub mod signals;
