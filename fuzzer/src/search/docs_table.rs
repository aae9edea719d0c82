//! Tables of numbers in docs/search.md, for the tests that hold the code to them.

/// The rows of the table behind `<!-- NAME table`, without its head.
pub(super) fn rows(name: &str) -> Vec<Vec<u64>> {
    let docs = include_str!("../../../docs/search.md");
    let begin = format!("<!-- {name} table");
    docs.lines()
        .skip_while(|l| !l.starts_with(&begin))
        .take_while(|l| !l.starts_with("<!-- end"))
        .filter_map(|l| {
            let cells = l.split('|').map(str::trim).filter(|c| !c.is_empty());
            cells.map(|c| c.parse().ok()).collect::<Option<Vec<u64>>>()
        })
        .filter(|r| !r.is_empty())
        .collect()
}
