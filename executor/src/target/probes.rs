//! The parts of target.toml that say what a node is asked over TCP, and what its answer means: `[ready]`, `[started]`, `[role]`, `[stable]`.
//! Called by the loading of a target; asking is the prober's (`run::asking`).

use super::section::{Section, TargetError};
use super::{Probe, Stable};
use std::collections::BTreeMap;
use std::time::Duration;

/// `[role]`.
#[derive(Default)]
pub(super) struct RoleSection {
    pub probe: Option<Probe>,
    /// What an answer means, where it is not the role's name itself.
    pub names: BTreeMap<String, String>,
    /// The role of which there must be exactly one when stable; empty = none.
    pub lead: String,
}

/// `[role]`; where there is none, the target has no roles.
pub(super) fn role(top: &mut Section<'_>) -> Result<RoleSection, TargetError> {
    let Some(mut s) = top.opt_table("role")? else {
        return Ok(RoleSection::default());
    };
    let lead = s.opt_string("lead")?.unwrap_or_default();
    let probe = probe(&mut s)?;
    captures(
        &s,
        &probe.expect,
        "expect",
        "put the role's name in parentheses: capture 1 is the role",
    )?;
    let names = match s.opt_table("names")? {
        None => BTreeMap::new(),
        Some(mut n) => n.rest_texts()?,
    };
    s.end()?;
    Ok(RoleSection {
        probe: Some(probe),
        names,
        lead,
    })
}

/// `[stable]`; where there is none, ready nodes and one lead are enough.
pub(super) fn stable(top: &mut Section<'_>) -> Result<Option<Stable>, TargetError> {
    let Some(mut s) = top.opt_table("stable")? else {
        return Ok(None);
    };
    let stable = Stable {
        port: port(&mut s)?,
        port_step: port_step(&mut s)?,
        send: s.opt_string("send")?.unwrap_or_default(),
        equal: s.opt_string("equal")?.unwrap_or_default(),
        equal_bits: s
            .opt_int("equal_bits", 0, 63)?
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(0),
    };
    if !stable.equal.is_empty() {
        captures(
            &s,
            &stable.equal,
            "equal",
            "put what must be equal in parentheses",
        )?;
    }
    s.end()?;
    Ok(Some(stable))
}

/// Refuses a regex that is none or captures nothing.
fn captures(
    s: &Section<'_>,
    regex: &str,
    key: &'static str,
    remedy: &str,
) -> Result<(), TargetError> {
    if s.check_regex(key, regex)?.captures_len() < 2 {
        return Err(s.wrong(key, format!("`{regex}` captures nothing"), remedy));
    }
    Ok(())
}

/// `[ready]`: of all groups that have no own.
pub(super) fn ready(top: &mut Section<'_>) -> Result<Probe, TargetError> {
    let mut s = top.table("ready", "write [ready] with port, send and expect")?;
    let p = probe(&mut s)?;
    s.end()?;
    Ok(p)
}

fn port(s: &mut Section<'_>) -> Result<u16, TargetError> {
    let n = s.int("port", 1, 65535, "write port = 2181")?;
    u16::try_from(n).map_err(|_| s.wrong("port", format!("{n} is no port"), "write 1 to 65535"))
}

fn port_step(s: &mut Section<'_>) -> Result<u16, TargetError> {
    let step = s.opt_int("port_step", 0, 512)?.unwrap_or(0);
    Ok(u16::try_from(step).unwrap_or(0))
}

/// The keys of a question asked over TCP.
pub(super) fn probe(s: &mut Section<'_>) -> Result<Probe, TargetError> {
    let port = port(s)?;
    let port_step = port_step(s)?;
    let send = s.opt_string("send")?.unwrap_or_default();
    let expect = s.opt_string("expect")?.unwrap_or_default();
    s.check_regex("expect", &expect)?;
    let ms = s.opt_int("timeout_ms", 1, 600_000)?.unwrap_or(30_000);
    Ok(Probe {
        port,
        port_step,
        send,
        expect,
        timeout: Duration::from_millis(u64::try_from(ms).unwrap_or(30_000)),
    })
}

/// A section that is a probe and nothing else.
pub(super) fn opt_probe(
    s: &mut Section<'_>,
    name: &'static str,
) -> Result<Option<Probe>, TargetError> {
    let Some(mut own) = s.opt_table(name)? else {
        return Ok(None);
    };
    let p = probe(&mut own)?;
    own.end()?;
    Ok(Some(p))
}
