//! Pages of HTML that hold drawings: nothing runs in them and nothing is loaded, so they open anywhere and can be sent.

use crate::{colours, escaped};

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1a1a1a;--paper:#ffffff;--faint:#d0d0d0;--good:#0a6b3d;--bad:#a3260f}\
body{font:15px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;color:var(--ink);background:var(--paper)}\
h1{font-size:1.5rem;overflow-wrap:anywhere}h2{font-size:1.15rem;margin-top:2rem}.verdict{font-size:1.15rem;font-weight:600}\
table{border-collapse:collapse;margin:.6rem 0;font-variant-numeric:tabular-nums}\
th,td{border-bottom:1px solid var(--faint);padding:.15rem .7rem .15rem 0;text-align:left;vertical-align:top}\
thead+tbody td,th{white-space:nowrap}td{overflow-wrap:anywhere}pre,.wide,figure{overflow-x:auto}figure{margin:0}\
svg{display:block;max-width:100%;height:auto;font:12px sans-serif}.many figure{display:inline-block;margin:0 1rem 1rem 0}\
.better{color:var(--good)}.worse{color:var(--bad)}details{margin:.4rem 0}\
@media screen and (prefers-color-scheme:dark){:root{--ink:#e6e6e6;--paper:#151719;--faint:#44484d;--good:#5fd39a;--bad:#ff8f78}}\
@media print{:root{color-scheme:light}body{max-width:none;font-size:11px;margin:0}h2,summary{break-after:avoid}\
svg{min-width:0!important}figure,tr{break-inside:avoid}pre,.wide,figure{overflow:visible}pre{white-space:pre-wrap;font-size:9px}\
th,td{padding-right:.4rem}th,thead+tbody td{white-space:normal}details::details-content{content-visibility:visible;display:block}}";

/// A page of this title and body, with what its head needs.
#[must_use]
pub fn whole(title: &str, body: &str) -> String {
    let (title, colours) = (escaped(title), colours::style());
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>{STYLE}{colours}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
    )
}

/// A table; rows as wide as its head. A head of empty names is left out.
#[must_use]
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut html = String::from("<div class=\"wide\"><table>");
    if head.iter().any(|name| !name.is_empty()) {
        let cells: String = head
            .iter()
            .map(|name| format!("<th scope=\"col\">{}</th>", escaped(name)))
            .collect();
        html.push_str(&format!("<thead><tr>{cells}</tr></thead>"));
    }
    html.push_str("<tbody>\n");
    for row in rows {
        let cells: String = row
            .iter()
            .map(|cell| format!("<td>{}</td>", escaped(cell)))
            .collect();
        html.push_str(&format!("<tr>{cells}</tr>\n"));
    }
    html.push_str("</tbody></table></div>\n");
    html
}

/// Text as it stands, lines and blanks kept.
#[must_use]
pub fn verbatim(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(escaped).collect();
    format!("<pre>{}</pre>\n", lines.join("\n"))
}

/// A drawing that is finished, with its caption.
#[must_use]
pub fn figure(drawing: &str, caption: &str) -> String {
    format!(
        "<figure>{drawing}<figcaption>{}</figcaption></figure>\n",
        escaped(caption)
    )
}

/// What stands under a drawing: its numbers, shown when asked for, and in print.
#[must_use]
pub fn numbers(table: &str) -> String {
    format!("<details><summary>The same as numbers</summary>\n{table}</details>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_escapes_and_loads_nothing() {
        let body = table(&["<a>", "b"], &[vec!["&".to_owned(), "\"".to_owned()]]);
        let page = whole("<b>", &(body + &numbers(&table(&["", ""], &[]))));
        assert!(page.contains("<title>&lt;b&gt;</title>"), "{page}");
        assert!(page.contains("<th scope=\"col\">&lt;a&gt;</th>"), "{page}");
        assert!(page.contains("<td>&amp;</td><td>&quot;</td>"), "{page}");
        assert_eq!(page.matches("<thead>").count(), 1);
        assert_eq!(verbatim("a\n  <b\u{1b}\n"), "<pre>a\n  &lt;b?</pre>\n");
        for way_out in [
            "http:", "https:", "url(", "@import", "src=", "href", "<script",
        ] {
            assert!(!page.contains(way_out), "{way_out}");
        }
    }
}
