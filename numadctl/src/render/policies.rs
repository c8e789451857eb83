//! What `policies` shows.

use control::rows::{AsPublished, DifferenceRow, PolicyPage, PolicyRow};
use numad_core::{IntervalLaw, Published};

use super::table::{Side, table};
use super::wrap::{beside, wrapped};

/// Names and summaries, in lines of at most `width`.
#[must_use]
pub fn list(rows: &[PolicyRow], width: usize) -> String {
    let names = rows.iter().map(|row| row.name.chars().count());
    let margin = names.max().unwrap_or(0).max("POLICY".len()) + 2;
    let mut cells = Vec::new();
    for row in rows {
        let lines = wrapped(&row.summary, width.saturating_sub(margin));
        for (number, line) in lines.into_iter().enumerate() {
            let name = if number == 0 { row.name.as_str() } else { "" };
            cells.push(vec![name.to_owned(), line]);
        }
    }
    table(
        &[("POLICY", Side::Left), ("WHAT IT DOES", Side::Left)],
        &cells,
    )
}

/// One policy with its settings, in lines of at most `width`.
#[must_use]
pub fn page(row: &PolicyRow, width: usize) -> String {
    const MARGIN: usize = 4;
    let summary = format!("{}: {}", row.name, row.summary);
    let mut text = wrapped(&summary, width).join("\n");
    text.push('\n');
    if row.settings.is_empty() {
        text.push_str("\nit has no settings\n");
        return text;
    }
    // Sentences do not fit a table: a setting is a line of figures and lines of help.
    for setting in &row.settings {
        text.push_str(&format!("\n{} = {}", setting.name, setting.value));
        if setting.value != setting.default {
            text.push_str(&format!("   (default {})", setting.default));
        }
        text.push('\n');
        let expects = format!("expects {}", setting.expects);
        for told in [expects.as_str(), &setting.help] {
            for line in wrapped(told, width.saturating_sub(MARGIN)) {
                text.push_str(&format!("{:MARGIN$}{line}\n", ""));
            }
        }
    }
    text
}

/// What JSON shows of one policy.
#[must_use]
pub fn json_page(row: &PolicyRow, published: Option<&Published>) -> PolicyPage {
    let as_published = published.map(|published| AsPublished {
        paper: published.paper.to_owned(),
        interval: interval_of(published),
        settings: published.takes.iter().map(ToString::to_string).collect(),
        differences: differences(&row.name).collect(),
    });
    PolicyPage {
        policy: row.clone(),
        as_published,
    }
}

/// Where a policy and its method as published differ, what all methods have in common last.
fn differences(policy: &str) -> impl Iterator<Item = DifferenceRow> {
    policies::DIFFERENCES.lines().filter_map(move |line| {
        let mut cells = line.split('|').map(str::to_owned);
        let of = cells.next()?;
        (of == policy || of == "*").then_some(DifferenceRow {
            what: cells.next()?,
            as_published: cells.next()?,
            by_default: cells.next()?,
            why: cells.next()?,
        })
    })
}

/// How the method differs as published and by default, in lines of at most `width`.
#[must_use]
pub fn as_published(name: &str, published: &Published, width: usize) -> String {
    const MARGIN: usize = 16;
    let interval = interval_of(published);
    let takes = match published.takes {
        [] => "no settings".to_owned(),
        names => format!("the settings {}", names.join(", ")),
    };
    let head = format!(
        "as published (--as-published, or {name}+published in experiments): {}",
        published.paper
    );
    let law = format!("interval {interval}; takes {takes}");
    let mut text = format!(
        "\n{}\n{}\n",
        wrapped(&head, width).join("\n"),
        wrapped(&law, width).join("\n")
    );
    for row in differences(name) {
        text.push_str(&format!("\n{}\n", wrapped(&row.what, width).join("\n")));
        for (label, told) in [
            ("  as published", &row.as_published),
            ("  by default", &row.by_default),
            ("  why", &row.why),
        ] {
            text.push_str(&beside(label, told, MARGIN, width));
        }
    }
    text
}

/// The interval law with its constants.
fn interval_of(published: &Published) -> String {
    match published.interval {
        IntervalLaw::Calm { min, max } if min == max => format!("every {} ms", min.as_millis()),
        IntervalLaw::Calm { min, max } => {
            format!("calm, {} to {} ms", min.as_millis(), max.as_millis())
        }
        IntervalLaw::Lapt { start, min, max } => format!(
            "lapt, {} ms at first, {} to {} ms",
            start.as_millis(),
            min.as_millis(),
            max.as_millis()
        ),
        IntervalLaw::OnDeLoc { min, max, factor } => format!(
            "ondeloc, {} to {} ms, factor {factor}",
            min.as_millis(),
            max.as_millis()
        ),
    }
}
