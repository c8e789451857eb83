//! An experiment as one page: nothing runs in it and nothing is loaded, so it opens anywhere and can be sent by mail.
//! All it shows is in the file of the experiment; under each picture its numbers stand as a table.

use control::experiment::{Experiment, Metric};
use picture::{Drawing, escaped};

use super::experiment::{
    arm_rows, ending, figure, notes, noun, percent, primary, result_rows, sentence, signed,
};
use experiment::results;

/// Size of a picture, in pixels.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 260.0;

/// Room at the left for numbers, and below for the axis.
const LEFT: f64 = 80.0;
const BELOW: f64 = 34.0;

/// Colours that stay apart for the colour-blind (Okabe and Ito), for light and for dark pages.
const LIGHT: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#444444",
];
const DARK: [&str; 6] = [
    "#56b4e9", "#ff8c42", "#3fd0a0", "#e69fd0", "#f0e442", "#bbbbbb",
];

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1a1a1a;--paper:#ffffff;--faint:#d0d0d0;--good:#0a6b3d;--bad:#a3260f}\
body{font:15px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;color:var(--ink);background:var(--paper)}\
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}.verdict{font-size:1.15rem;font-weight:600}\
table{border-collapse:collapse;margin:.6rem 0;font-variant-numeric:tabular-nums}\
th,td{border-bottom:1px solid var(--faint);padding:.15rem .7rem .15rem 0;text-align:left}\
.wide,figure{overflow-x:auto}figure{margin:0}svg{width:100%;min-width:34rem;height:auto;font:12px sans-serif}svg text{fill:var(--ink)}code{overflow-wrap:anywhere}\
.axis{stroke:var(--faint)}.zero{stroke:var(--ink);stroke-dasharray:4 3}.band{opacity:.18}.none{fill:none}\
.better{color:var(--good)}.worse{color:var(--bad)}details{margin:.4rem 0}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;--paper:#151719;--faint:#44484d;--good:#5fd39a;--bad:#ff8f78}}\
@media print{:root{--ink:#000;--paper:#fff;--faint:#999}body{max-width:none}details::details-content{content-visibility:visible;display:block}}";

/// The page.
#[must_use]
pub fn page(experiment: &Experiment) -> String {
    let title = format!(
        "{}: {}",
        arm_names(experiment),
        experiment.subject.join(" ")
    );
    let mut html = String::new();
    for row in primary(experiment) {
        let class = match super::experiment::word(row.verdict) {
            word @ ("better" | "worse") => word,
            _ => "open",
        };
        html.push_str(&format!(
            "<p class=\"verdict {class}\">{}</p>\n",
            escaped(&sentence(experiment, row))
        ));
    }
    html.push_str(&format!("<p>{}.</p>\n", escaped(&ending(experiment))));
    html.push_str(&facts(experiment));
    for note in notes(experiment) {
        html.push_str(&format!("<p>Note: {}.</p>\n", escaped(&note)));
    }
    html.push_str("<h2>Differences from the control</h2>\n");
    for arm in 1..experiment.arms.len() {
        html.push_str(&differences(experiment, arm));
    }
    let head = [
        "policy",
        "metric",
        "pairs",
        "gain",
        "bounds",
        "p, adjusted",
        "verdict",
    ];
    html.push_str(&table(&head, &result_rows(&experiment.results)));
    for metric in 0..experiment.metrics.len() {
        let name = escaped(&experiment.metrics[metric].name);
        html.push_str(&format!("<h2>{name} in time</h2>\n"));
        html.push_str(&in_time(experiment, metric));
    }
    let head = ["policy", "metric", "n", "least", "median", "most", "unit"];
    html.push_str(&table(&head, &arm_rows(experiment)));
    html.push_str(&raw(experiment));
    whole(&title, &colours(experiment), &html)
}

/// A page of this title and body, with what its head needs.
pub(super) fn whole(title: &str, style: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>{STYLE}{style}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
    )
}

fn arm_names(experiment: &Experiment) -> String {
    let names: Vec<&str> = experiment
        .arms
        .iter()
        .map(|arm| arm.name.as_str())
        .collect();
    let (control, others) = names.split_first().unwrap_or((&"", &[]));
    format!("{} against {control}", others.join(", "))
}

/// Classes `a0` to `a5`: the colour of an arm.
fn colours(experiment: &Experiment) -> String {
    let of = |colours: [&str; 6]| {
        let arms = 0..experiment.arms.len().min(colours.len());
        arms.map(|arm| format!(".a{arm}{{fill:{0};stroke:{0}}}", colours[arm]))
            .collect::<String>()
    };
    format!(
        "{}@media(prefers-color-scheme:dark){{{}}}",
        of(LIGHT),
        of(DARK)
    )
}

fn class(arm: usize) -> String {
    format!("class=\"a{}\"", arm % LIGHT.len())
}

fn facts(experiment: &Experiment) -> String {
    let settings = |arm: &control::experiment::Arm| {
        let set: Vec<String> = arm
            .set
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let policy = arm
            .policy
            .as_deref()
            .unwrap_or("numad does not touch the program");
        let set = if set.is_empty() {
            String::new()
        } else {
            format!(" ({})", set.join(", "))
        };
        format!("{}: {policy}{set}", arm.name)
    };
    let arms: Vec<String> = experiment.arms.iter().map(settings).collect();
    let rows = [
        ("program", experiment.subject.join(" ")),
        ("machine", experiment.machine.clone()),
        ("policies", arms.join("; ")),
        ("primary metric", experiment.metrics[0].name.clone()),
        ("smallest effect that counts", percent(experiment.margin)),
        ("written by", experiment.made_by.clone()),
    ];
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect();
    table(&["", ""], &rows)
}

/// A table; rows as wide as its head.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut html = String::from("<div class=\"wide\"><table>");
    if head.iter().any(|name| !name.is_empty()) {
        let cells: String = head
            .iter()
            .map(|name| format!("<th>{}</th>", escaped(name)))
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

/// From values to heights and back.
struct Scale {
    least: f64,
    most: f64,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let (least, most) = values.fold(
            (f64::INFINITY, f64::NEG_INFINITY),
            |(least, most), value| (least.min(value), most.max(value)),
        );
        if !(least.is_finite() && most.is_finite()) {
            return Self {
                least: 0.0,
                most: 1.0,
            };
        }
        let room = ((most - least) * 0.08).max(most.abs() * 1e-3).max(1e-9);
        Self {
            least: least - room,
            most: most + room,
        }
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value - self.least) / (self.most - self.least);
        (1.0 - share.clamp(0.0, 1.0)) * (HEIGHT - BELOW - 10.0) + 10.0
    }

    /// Five lines with their values.
    fn draw(&self, drawing: &mut Drawing, name: &dyn Fn(f64) -> String) {
        for step in 0..5 {
            let value = self.least + (self.most - self.least) * f64::from(step) / 4.0;
            let y = self.y(value);
            drawing.line((LEFT, y), (WIDTH, y), "class=\"axis\"");
            drawing.text((LEFT - 6.0, y + 4.0), "text-anchor=\"end\"", &name(value));
        }
    }
}

/// Where the piece of this index stands among so many.
fn x(index: usize, count: usize) -> f64 {
    LEFT + 12.0 + (WIDTH - LEFT - 24.0) * (index as f64 + 0.5) / count.max(1) as f64
}

/// The difference of each pair, the estimate and its bounds.
fn differences(experiment: &Experiment, arm: usize) -> String {
    let pairs = results::differences(experiment, arm, 0);
    let row = &primary(experiment).get(arm - 1);
    let shares: Vec<f64> = pairs
        .iter()
        .map(|(_, difference)| difference.exp_m1())
        .collect();
    let bounds = row.and_then(|row| Some((row.low?, row.high?)));
    let ends = bounds.into_iter().flat_map(|(low, high)| [low, high]);
    let scale = Scale::of(shares.iter().copied().chain(ends).chain([0.0]));
    let name = &experiment.arms[arm].name;
    let title = format!("{name} minus {}, pair by pair", experiment.arms[0].name);
    let description = format!(
        "{} pairs; above the dashed line {name} is better. The band is where the true effect lies.",
        pairs.len()
    );
    let mut drawing = Drawing::inline((WIDTH, HEIGHT), &title, &description);
    if let Some((low, high)) = bounds {
        let (top, bottom) = (scale.y(high), scale.y(low));
        let size = (WIDTH - LEFT, bottom - top);
        let style = format!("class=\"a{} band\"", arm % LIGHT.len());
        drawing.rect((LEFT, top), size, &style);
    }
    scale.draw(&mut drawing, &signed);
    drawing.line(
        (LEFT, scale.y(0.0)),
        (WIDTH, scale.y(0.0)),
        "class=\"zero\"",
    );
    if let Some(gain) = row.and_then(|row| row.gain) {
        drawing.line((LEFT, scale.y(gain)), (WIDTH, scale.y(gain)), &class(arm));
    }
    for (index, share) in shares.iter().enumerate() {
        let name = format!("pair {}: {}", pairs[index].0 + 1, signed(*share));
        drawing.mark(
            arm,
            (x(index, shares.len()), scale.y(*share)),
            &class(arm),
            &name,
        );
    }
    drawing.text((LEFT, HEIGHT - 8.0), "", "pairs in order of time");
    let rows: Vec<Vec<String>> = pairs
        .iter()
        .zip(&shares)
        .map(|((block, difference), share)| {
            vec![
                (block + 1).to_string(),
                signed(*share),
                format!("{difference:.6}"),
            ]
        })
        .collect();
    let head = ["pair", "gain", "difference of logarithms"];
    figure_of(&drawing.finish(), &title, &table(&head, &rows))
}

/// Every value in the order in which it was measured.
fn in_time(experiment: &Experiment, metric: usize) -> String {
    let value = |slice: &control::experiment::Slice| slice.values.get(metric).copied().flatten();
    let slices = &experiment.slices;
    let scale = Scale::of(slices.iter().filter_map(value));
    let Metric { name, unit, .. } = &experiment.metrics[metric];
    let title = format!(
        "{name} of each of the {}, in order of time",
        noun(experiment)
    );
    let description =
        "Each policy has its own shape and colour; the line of a policy is its median.";
    let mut drawing = Drawing::inline((WIDTH, HEIGHT), &title, description);
    scale.draw(&mut drawing, &figure);
    for (index, slice) in slices.iter().enumerate() {
        let (Some(value), Ok(arm)) = (value(slice), usize::try_from(slice.arm)) else {
            continue;
        };
        let told = format!(
            "{} {}: {} {unit}",
            experiment.arms[arm].name,
            slice.block + 1,
            figure(value)
        );
        drawing.mark(
            arm,
            (x(index, slices.len()), scale.y(value)),
            &class(arm),
            &told,
        );
    }
    let mut left = LEFT;
    for (arm, named) in experiment.arms.iter().enumerate() {
        drawing.mark(arm, (left + 6.0, HEIGHT - 12.0), &class(arm), &named.name);
        drawing.text((left + 16.0, HEIGHT - 8.0), "", &named.name);
        left += 40.0 + 7.5 * named.name.chars().count() as f64;
        let values = results::arm_values(experiment, arm, metric);
        if !values.is_empty() {
            let y = scale.y(experiment::bootstrap::quantile(&values, 0.5));
            drawing.line((LEFT, y), (WIDTH, y), &class(arm));
        }
    }
    let rows: Vec<Vec<String>> = slices
        .iter()
        .map(|slice| {
            let arm = usize::try_from(slice.arm)
                .ok()
                .and_then(|arm| experiment.arms.get(arm));
            vec![
                format!("{:.1}", slice.at_s),
                (slice.block + 1).to_string(),
                arm.map_or_else(String::new, |arm| arm.name.clone()),
                value(slice).map_or_else(|| "-".to_owned(), figure),
            ]
        })
        .collect();
    let head = ["at, s", "block", "policy", "value"];
    figure_of(&drawing.finish(), &title, &table(&head, &rows))
}

fn figure_of(drawing: &str, title: &str, table: &str) -> String {
    format!(
        "<figure>{drawing}<figcaption>{}</figcaption></figure>\n<details><summary>The same as numbers</summary>\n{table}</details>\n",
        escaped(title)
    )
}

/// What each slice was and did.
fn raw(experiment: &Experiment) -> String {
    let rows: Vec<Vec<String>> = experiment
        .slices
        .iter()
        .map(|slice| {
            let arm = usize::try_from(slice.arm)
                .ok()
                .and_then(|arm| experiment.arms.get(arm));
            let moved = slice.moved.unwrap_or_default();
            let known = |text: String, known: bool| if known { text } else { "-".to_owned() };
            vec![
                (slice.block + 1).to_string(),
                arm.map_or_else(String::new, |arm| arm.name.clone()),
                format!("{:.1}", slice.at_s),
                format!("{:.2}", slice.length_s),
                slice
                    .exit_code
                    .map_or_else(|| "-".to_owned(), |code| code.to_string()),
                slice.pressure.map_or_else(|| "-".to_owned(), percent),
                known(moved.threads.to_string(), slice.moved.is_some()),
                known(moved.pages.to_string(), slice.moved.is_some()),
                known(moved.undo_ms.to_string(), slice.moved.is_some()),
            ]
        })
        .collect();
    let head = [
        "block",
        "policy",
        "at, s",
        "length, s",
        "exit code",
        "waiting for processors",
        "threads bound",
        "pages moved",
        "undo, ms",
    ];
    format!(
        "<h2>Order, and what each policy did</h2>\n<p>Seed {}; the seed decides the order within each block. Waiting \
         for processors: the share of time in which some thread of the machine did.</p>\n{}",
        experiment.seed,
        table(&head, &rows)
    ) + &disturbed(experiment)
}

/// What else went on under each policy.
fn disturbed(experiment: &Experiment) -> String {
    let Some((head, rows)) = super::experiment::disturbed(experiment) else {
        return String::new();
    };
    let head: Vec<String> = head.iter().map(|name| name.to_lowercase()).collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    format!(
        "<h2>Beside the policies</h2>\n<p>Means over each policy's slices, switching included. Neighbour: of the control \
         groups beside the program's, the one that waited most. Kernel moved: pages that its own balancing moved.</p>\n{}",
        table(&head, &rows)
    )
}
