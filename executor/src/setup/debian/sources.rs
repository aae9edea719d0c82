//! Which of the mirrors this machine's apt is set to use are Debian's: its lists in either form, the likeliest mirror first.
//!
//! Called by [`super::Debian`]. All but [`configured`] is pure. It asks no mirror anything.

use crate::setup::error::{DebianError, SetupError};
use std::fs;
use std::path::PathBuf;

/// The mirrors this machine is set to use.
pub(super) fn configured() -> Result<Vec<String>, SetupError> {
    let mut paths = vec![PathBuf::from("/etc/apt/sources.list")];
    let folder = fs::read_dir("/etc/apt/sources.list.d");
    paths.extend(folder.into_iter().flatten().flatten().map(|f| f.path()));
    paths.retain(|p| p.is_file() && p.extension().is_some_and(|e| e == "list" || e == "sources"));
    paths.sort();
    let texts: Vec<(String, String)> = paths
        .iter()
        .filter_map(|p| Some((p.display().to_string(), fs::read_to_string(p).ok()?)))
        .collect();
    match mirrors(&texts) {
        none if none.is_empty() => {
            Err(no_mirror(texts.into_iter().map(|(name, _)| name).collect()))
        }
        mirrors => Ok(mirrors),
    }
}

pub(super) fn no_mirror(looked: Vec<String>) -> SetupError {
    let looked = match looked.join(", ") {
        none if none.is_empty() => "/etc/apt, which has no list".into(),
        files => files,
    };
    DebianError::NoMirror { looked }.into()
}

/// An entry of apt's lists, as far as it matters here.
struct Entry {
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    signed_by: String,
}

/// Mirrors of Debian in lists (name, text) of either form, the likeliest first; those of others are left out.
fn mirrors(lists: &[(String, String)]) -> Vec<String> {
    let mut ranked: Vec<(u8, String)> = Vec::new();
    for (name, text) in lists {
        let entries: Vec<Entry> = if name.ends_with(".sources") {
            let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
            let text = lines.join("\n");
            text.split("\n\n").filter_map(stanza).collect()
        } else {
            text.lines().filter_map(one_line).collect()
        };
        for entry in entries {
            for uri in &entry.uris {
                let uri = uri.trim_end_matches('/');
                if let Some(rank) = rank(uri, &entry)
                    && !ranked.iter().any(|(_, known)| known == uri)
                {
                    ranked.push((rank, uri.to_string()));
                }
            }
        }
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, uri)| uri).collect()
}

/// Many call their folder `debian`, so the key an entry is tied to counts more than its name. Security has no such suite.
fn rank(uri: &str, entry: &Entry) -> Option<u8> {
    let security = |s: &str| s.contains("security");
    if uri.starts_with("cdrom:")
        || security(uri)
        || entry.suites.iter().all(|s| security(s))
        || !entry.components.iter().any(|c| c == "main")
    {
        return None;
    }
    let named = uri
        .split('/')
        .skip(1)
        .any(|part| part.starts_with("debian"));
    match (entry.signed_by.contains("debian-archive"), named) {
        (true, _) => Some(0),
        (false, true) if entry.signed_by.is_empty() => Some(1),
        (false, true) => Some(2),
        (false, false) => None,
    }
}

/// `deb [signed-by=/k] http://host/debian bookworm main contrib # ...`
fn one_line(line: &str) -> Option<Entry> {
    let line = line.split('#').next()?.trim();
    let rest = line.strip_prefix("deb")?;
    let rest = rest.strip_prefix(char::is_whitespace)?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let signed_by = options
        .split_whitespace()
        .find_map(|o| o.strip_prefix("signed-by="));
    let mut words = rest.split_whitespace().map(String::from);
    Some(Entry {
        uris: vec![words.next()?],
        suites: vec![words.next()?],
        components: words.collect(),
        signed_by: signed_by.unwrap_or_default().into(),
    })
}

/// A paragraph of `Field: value`; a line that begins with a space goes on with the field before.
fn stanza(text: &str) -> Option<Entry> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        if line.starts_with([' ', '\t']) {
            let (_, value) = fields.last_mut()?;
            value.push(' ');
            value.push_str(line);
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.trim().to_ascii_lowercase(), value.to_string()));
        }
    }
    let words = |name: &str| -> Vec<String> {
        let field = fields.iter().find(|(n, _)| n == name);
        field.map_or_else(Vec::new, |(_, v)| {
            v.split_whitespace().map(String::from).collect()
        })
    };
    let off = ["no", "false", "off", "0", "without", "disable"];
    let enabled = words("enabled")
        .iter()
        .all(|w| !off.contains(&w.to_ascii_lowercase().as_str()));
    (enabled && words("types").iter().any(|t| t == "deb")).then(|| Entry {
        uris: words("uris"),
        suites: words("suites"),
        components: words("components"),
        signed_by: words("signed-by").join(" "),
    })
}

/// A mirror without the password that may stand in it.
pub(in crate::setup) fn shown(mirror: &str) -> String {
    match mirror.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.split('/').next().unwrap_or_default();
            let secret = host.rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[secret..])
        }
        None => mirror.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_of_debian_are_found_in_both_forms() {
        let key = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let table: [(&str, String, &[&str]); 16] = [
            ("a.list", "".into(), &[]),
            ("a.list", "deb http://m.test/debian/ bookworm main contrib # x".into(), &["http://m.test/debian"]),
            ("a.list", "# deb http://m.test/debian bookworm main\ndeb-src http://m.test/debian bookworm main".into(), &[]),
            ("a.list", format!("deb [ arch=amd64 signed-by={key} ] http://m.test/apt trixie main"), &["http://m.test/apt"]),
            ("a.list", "deb http://m.test/debian-security bookworm-security main".into(), &[]),
            ("a.list", "deb http://m.test/debian bookworm-security main".into(), &[]),
            ("a.list", "deb http://m.test/ubuntu noble main".into(), &[]),
            ("a.list", "deb https://other.test/linux/debian bookworm stable".into(), &[]),
            ("a.list", "deb cdrom:[Debian 12]/ bookworm main".into(), &[]),
            ("a.list", "deb http://u:p@m.test/x/debian-proxy sid main\ndeb http://m.test/debian".into(), &["http://u:p@m.test/x/debian-proxy"]),
            // Somebody else's `debian` after the system's own, whatever their order; each once.
            ("a.list", format!("deb [signed-by=/k/other.gpg] http://o.test/debian sid main\ndeb http://m.test/debian sid main\n\
                               deb [signed-by={key}] http://s.test/debian sid main\ndeb http://m.test/debian/ sid-updates main"),
             &["http://s.test/debian", "http://m.test/debian", "http://o.test/debian"]),
            ("a.sources", format!("Types: deb deb-src\n# from\nURIs: http://m.test/debian\nSuites: bookworm bookworm-updates\n\
                                  Components: main\nSigned-By: {key}\n\nTypes: deb\nURIs: http://m.test/debian-security\n\
                                  Suites: bookworm-security\nComponents: main\nSigned-By: {key}\n"), &["http://m.test/debian"]),
            ("a.sources", "types: deb\nuris:\n http://a.test/debian\n http://b.test/debian\nsuites: sid\ncomponents: main\n".into(),
             &["http://a.test/debian", "http://b.test/debian"]),
            ("a.sources", "Types: deb\r\nURIs: mirror+file:///etc/apt/mirrors/debian.list\r\nSuites: trixie\r\nComponents: main\r\n".into(),
             &["mirror+file:///etc/apt/mirrors/debian.list"]),
            ("a.sources", "Enabled: No\nTypes: deb\nURIs: http://m.test/debian\nSuites: sid\nComponents: main\n \t\n\
                           Types: deb\nURIs: http://n.test/debian\nSuites: sid\nComponents: main\n".into(), &["http://n.test/debian"]),
            ("a.sources", "Types: deb-src\nURIs: http://m.test/debian\nSuites: sid\nComponents: main\n".into(), &[]),
        ];
        for (name, text, want) in table {
            assert_eq!(mirrors(&[(name.into(), text.clone())]), want, "{text}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let table = [
            ("http://u:p@m.test/debian", "http://m.test/debian"),
            ("http://m.test/a@b", "http://m.test/a@b"),
            ("file:/srv/debian", "file:/srv/debian"),
        ];
        for (mirror, want) in table {
            assert_eq!(shown(mirror), want);
        }
    }
}
