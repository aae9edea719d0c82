//! `${…}` in `args` and `jvm`: node.name, node.index, node.addr, node.dir, clock.<key>. Pure.

/// Expands every `${key}` by `lookup`.
///
/// # Errors
/// The key that has no value, or that a `${` is never closed.
pub fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        out.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        let end = after
            .find('}')
            .ok_or_else(|| format!("`{text}` opens ${{ and never closes it"))?;
        let key = &after[..end];
        out.push_str(&lookup(key).ok_or_else(|| format!("`${{{key}}}` has no value"))?);
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn expands_or_says_why() {
        let look = |k: &str| (k == "node.dir").then(|| "/n".to_owned());
        for (text, want) in [
            ("plain", Ok("plain")),
            ("${node.dir}/zoo.cfg", Ok("/n/zoo.cfg")),
            ("a${node.dir}${node.dir}b", Ok("a/n/nb")),
            ("${node.nam}", Err("node.nam")),
            ("${node.dir", Err("never closes")),
            ("$x {y}", Ok("$x {y}")),
        ] {
            match (expand(text, &look), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want),
                (Err(got), Err(want)) => assert!(got.contains(want), "{got}"),
                (got, want) => panic!("{text}: {got:?}, wanted {want:?}"),
            }
        }
    }
}
