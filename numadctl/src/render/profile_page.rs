//! A profile as a page.

use control::profile::Profile;
use picture::Drawing;
use picture::colours::field;
use picture::escaped;
use picture::page::{figure, numbers, table, whole};

use super::profile::{groups, length, level, metrics, pairs, verdict};
use super::units::{bytes, count};

/// Most rows and columns of a picture; more tasks share one.
const CELLS_MAX: usize = 128;

/// Width and least height of the pictures, and room for names at the left and for numbers below.
const WIDTH: f64 = 840.0;
const LEFT: f64 = 110.0;
const BELOW: f64 = 24.0;

/// The page: verdict, metrics, communication in time, the matrix, groups.
#[must_use]
pub fn page(profile: &Profile) -> String {
    let title = format!("Profile of {}", profile.source);
    let mut body = format!(
        "<p class=\"verdict\">{}</p>\n<p>{}, {}{}. Made by {}.</p>\n",
        escaped(&verdict(profile)),
        count(profile.tasks.len() as u64, "task"),
        level(profile.level),
        length(profile),
        escaped(&profile.made_by)
    );
    let rows: Vec<Vec<String>> = metrics(profile).map(Vec::from).into();
    body += &format!(
        "<h2>Metrics</h2>\n{}",
        table(&["metric", "value", "what"], &rows)
    );
    if !profile.moments.is_empty() {
        body += &format!(
            "<h2>Communication in time</h2>\n{}{}",
            events(profile),
            in_time(profile)
        );
    }
    body += &format!("<h2>Who communicates with whom</h2>\n{}", matrix(profile));
    let head = ["group", "from, s", "to, s", "tasks", "events", "bytes"];
    body += &format!(
        "<h2>Groups</h2>\n<p>What a group holds was communicated at about the same time.</p>\n{}",
        table(&head, &groups(profile))
    );
    if !profile.notes.is_empty() {
        let notes: Vec<Vec<String>> = profile
            .notes
            .iter()
            .map(|note| vec![note.clone()])
            .collect();
        body += &format!("<h2>Notes</h2>\n{}", table(&[""], &notes));
    }
    whole(&title, &body)
}

/// How many events there are in each moment, with the borders of the groups.
fn events(profile: &Profile) -> String {
    const HEIGHT: f64 = 120.0;
    let title = "Events in time";
    let mut drawing = Drawing::inline(
        (WIDTH, HEIGHT + BELOW),
        title,
        "A bar for each moment, as high as it has events. Lines part the groups.",
    );
    let most = profile
        .moments
        .iter()
        .map(|moment| moment.events)
        .max()
        .unwrap_or(0)
        .max(1);
    let wide = (WIDTH - LEFT) / profile.moments.len() as f64;
    for (index, moment) in profile.moments.iter().enumerate() {
        let high = HEIGHT * moment.events as f64 / most as f64;
        let at = (LEFT + wide * index as f64, HEIGHT - high);
        let told = format!("{:.3} s: {}", moment.at_s, count(moment.events, "event"));
        drawing.named_rect(at, (wide, high), "class=\"a0\"", &told);
    }
    let length = profile.length_s.unwrap_or(0.0).max(f64::MIN_POSITIVE);
    for group in profile.groups.iter().skip(1) {
        let x = LEFT + (WIDTH - LEFT) * group.from_s.unwrap_or(0.0) / length;
        drawing.line((x, 0.0), (x, HEIGHT), "class=\"zero\"");
    }
    drawing.text((0.0, 12.0), "", &most.to_string());
    times(&mut drawing, profile, HEIGHT);
    let rows: Vec<Vec<String>> = profile
        .moments
        .iter()
        .map(|moment| vec![format!("{:.6}", moment.at_s), moment.events.to_string()])
        .collect();
    figure(&drawing.finish(), title) + &numbers(&table(&["at, s", "events"], &rows))
}

fn times(drawing: &mut Drawing, profile: &Profile, height: f64) {
    let last = profile.length_s.unwrap_or(0.0);
    drawing.text((LEFT, height + 16.0), "", "0 s");
    let style = "text-anchor=\"end\"";
    drawing.text((WIDTH, height + 16.0), style, &format!("{last:.3} s"));
}

/// Tasks that share a row or column of a picture.
fn together(tasks: usize) -> usize {
    tasks.div_ceil(CELLS_MAX).max(1)
}

/// The heat map over time: a row for each task, a column for each moment.
fn in_time(profile: &Profile) -> String {
    let together = together(profile.tasks.len());
    let rows: Vec<Vec<u64>> = (0..profile.tasks.len())
        .step_by(together)
        .map(|first| {
            let end = (first + together).min(profile.tasks.len());
            let sum = |bytes: &[u64]| {
                bytes[first..end]
                    .iter()
                    .fold(0, |sum: u64, &part| sum.saturating_add(part))
            };
            profile
                .moments
                .iter()
                .map(|moment| sum(&moment.bytes))
                .collect()
        })
        .collect();
    let title = "What each task communicates in time";
    let about =
        "A row for each task, from the start at the left to the end at the right; darker is more.";
    let high = (480.0 / rows.len().max(1) as f64).clamp(4.0, 24.0);
    let wide = (WIDTH - LEFT) / profile.moments.len() as f64;
    let picture = Heat {
        rows: &rows,
        cell: (wide, high),
        together,
    };
    let mut drawing = picture.draw(profile, (title, about), |column| {
        format!("{:.3} s", profile.moments[column].at_s)
    });
    times(&mut drawing, profile, high * rows.len() as f64);
    let head: Vec<String> = std::iter::once("at, s".to_owned())
        .chain(picture.names(profile))
        .collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let lines = profile.moments.iter().enumerate().map(|(column, moment)| {
        let amounts = rows.iter().map(|row| row[column].to_string());
        std::iter::once(format!("{:.6}", moment.at_s))
            .chain(amounts)
            .collect()
    });
    let lines: Vec<Vec<String>> = lines.collect();
    figure(&drawing.finish(), title) + &numbers(&table(&head, &lines))
}

/// The matrix, and the pairs that communicate most.
fn matrix(profile: &Profile) -> String {
    let together = together(profile.tasks.len());
    let side = profile.tasks.len().div_ceil(together);
    let mut rows = vec![vec![0_u64; side]; side];
    for pair in profile.groups.iter().flat_map(|group| &group.pairs) {
        let (low, high) = (pair.low / together, pair.high / together);
        rows[low][high] = rows[low][high].saturating_add(pair.bytes);
        if low != high {
            rows[high][low] = rows[low][high];
        }
    }
    let title = "Who communicates with whom";
    let about = "A row and a column for each task; where two cross, darker is more.";
    let cell = (560.0 / side.max(1) as f64).clamp(4.0, 40.0);
    let picture = Heat {
        rows: &rows,
        cell: (cell, cell),
        together,
    };
    let names = picture.names(profile);
    let drawing = picture.draw(profile, (title, about), |column| names[column].clone());
    let (pairs, left_out) = pairs(profile);
    let mut html = figure(&drawing.finish(), title) + &table(&["pair", "events", "bytes"], &pairs);
    if left_out > 0 {
        html += &format!("<p>And {}.</p>\n", count(left_out as u64, "pair"));
    }
    html
}

/// Cells, darker where there is more.
struct Heat<'a> {
    rows: &'a [Vec<u64>],
    cell: (f64, f64),
    /// Tasks of a row.
    together: usize,
}

impl Heat<'_> {
    fn names(&self, profile: &Profile) -> Vec<String> {
        profile
            .tasks
            .iter()
            .step_by(self.together)
            .cloned()
            .collect()
    }

    fn draw(
        &self,
        profile: &Profile,
        (title, about): (&str, &str),
        column: impl Fn(usize) -> String,
    ) -> Drawing {
        let (wide, high) = self.cell;
        let height = high * self.rows.len() as f64;
        let mut drawing = Drawing::inline((WIDTH, height + BELOW), title, about);
        let most = self.rows.iter().flatten().max().copied().unwrap_or(0);
        // Names that would lie upon each other are left out.
        let every = (12.0 / high).ceil().max(1.0);
        for ((index, row), name) in self.rows.iter().enumerate().zip(self.names(profile)) {
            let y = high * index as f64;
            if (index as f64 / every).fract() <= 0.0 {
                drawing.text((0.0, y + high.min(14.0) - 2.0), "font-size=\"10\"", &name);
            }
            for (at, &amount) in row.iter().enumerate().filter(|(_, amount)| **amount > 0) {
                let told = format!("{name}, {}: {}", column(at), bytes(amount));
                let style = field("heat", amount, most);
                drawing.named_rect((LEFT + wide * at as f64, y), (wide, high), &style, &told);
            }
        }
        let wide = wide * self.rows.first().map_or(0, Vec::len) as f64;
        drawing.rect((LEFT, 0.0), (wide, height), "class=\"border\"");
        drawing
    }
}
