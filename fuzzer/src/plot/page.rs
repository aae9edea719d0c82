//! The page of `warren plot`: one HTML file with the curves in it, without scripts and without anything from elsewhere. Pure.

use maud::{DOCTYPE, PreEscaped, html};

/// What an instance's figures say, for the table.
pub struct Row {
    pub name: String,
    /// (key, value).
    pub figures: Vec<(&'static str, String)>,
    /// (number, what).
    pub findings: Vec<(String, String)>,
}

/// The page.
#[must_use]
pub fn page(title: &str, written: &str, rows: &[Row], svgs: &[String]) -> String {
    let style = "body{font-family:sans-serif;max-width:1020px;margin:1em auto;padding:0 .5em;color:#222}\
                 table{border-collapse:collapse;margin:.5em 0}td,th{border:1px solid #ccc;padding:.2em .6em;text-align:left}\
                 svg{max-width:100%;height:auto;display:block;margin:1em 0}code{background:#f4f4f4}";
    let heads: Vec<&str> = rows
        .first()
        .map(|r| r.figures.iter().map(|(k, _)| *k).collect())
        .unwrap_or_default();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Warren: " (title) }
                style { (PreEscaped(style)) }
            }
            body {
                h1 { "Warren: " (title) }
                p { (written) }
                table {
                    tr { th { "instance" } @for h in &heads { th { (h) } } }
                    @for r in rows {
                        tr { td { (r.name) } @for (_, v) in &r.figures { td { (v) } } }
                    }
                }
                @for svg in svgs { (PreEscaped(svg)) }
                h2 { "Findings" }
                @if rows.iter().all(|r| r.findings.is_empty()) {
                    p { "None." }
                } @else {
                    table {
                        tr { th { "instance" } th { "finding" } th { "signature, kind, check, seen again in k/n replays" } }
                        @for r in rows {
                            @for (number, what) in &r.findings {
                                tr { td { (r.name) } td { code { "findings/" (number) } } td { (what) } }
                            }
                        }
                    }
                    p { "Read one with " code { "warren report" } " and its folder." }
                }
            }
        }
    }
    .into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_that_needs_nothing_else() {
        let rows = [Row {
            name: "<default>".into(),
            figures: vec![("runs", "61".into())],
            findings: vec![("000000".into(), "aa & bb".into())],
        }];
        let text = page("a\"<b>", "today", &rows, &["<svg>x</svg>".into()]);
        assert!(text.contains("&lt;default&gt;") && text.contains("aa &amp; bb"));
        assert!(text.contains("<svg>x</svg>") && text.contains("findings/000000"));
        for outside in ["<script", "http:", "https:", "src=", "href="] {
            assert!(!text.contains(outside), "{outside}");
        }
        assert!(page("x", "", &[], &[]).contains("None."));
    }
}
