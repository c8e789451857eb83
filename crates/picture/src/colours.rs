//! Colours by class, for light and for dark: in the page that holds drawings, and in each file that holds one.

/// Colours that stay apart for the colour-blind (Okabe and Ito), on light and on dark.
const LIGHT: [&str; SERIES] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#444444",
];
const DARK: [&str; SERIES] = [
    "#56b4e9", "#ff8c42", "#3fd0a0", "#e69fd0", "#f0e442", "#bbbbbb",
];

/// How many series have colours of their own.
pub const SERIES: usize = 6;

/// Letters, what is drawn on, lines of a scale, borders, much of something (blue), far away (red), boxes with and
/// without processors, what is not known. Values stand in each rule: many viewers of SVG know no variables.
const LIGHT_RULES: &str = "\
svg text{fill:#1a1a1a}svg .faint{fill:#445566}.paper{fill:#ffffff}.axis{stroke:#d0d0d0}.zero{stroke:#1a1a1a;stroke-dasharray:4 3}\
.border{stroke:#555555}.none,.border{fill:none}.band{opacity:.18}.heat{fill:#08306b}.hot{stroke:#08306b}.warm{fill:#e2361e}\
.card{fill:#e8eef7;stroke:#556677}.bare{fill:#eef3ea;stroke:#556677}.unknown{fill:#dddddd}";
const DARK_RULES: &str = "\
svg text{fill:#e6e6e6}svg .faint{fill:#a9b4c0}.paper{fill:#151719}.axis{stroke:#44484d}.zero{stroke:#e6e6e6}\
.border{stroke:#8a8f96}.heat{fill:#8fc7ff}.hot{stroke:#8fc7ff}.warm{fill:#d4412c}\
.card{fill:#1e2a3a;stroke:#8899aa}.bare{fill:#24301f;stroke:#8899aa}.unknown{fill:#4a4d52}";

/// The style sheet of all classes.
#[must_use]
pub fn style() -> String {
    let series = |colours: [&str; SERIES]| {
        let rule = |(index, colour)| format!(".a{index}{{fill:{colour};stroke:{colour}}}");
        (0..).zip(colours).map(rule).collect::<String>()
    };
    // Paper is light, whatever the screen is.
    format!(
        "{LIGHT_RULES}{}@media screen and (prefers-color-scheme:dark){{{DARK_RULES}{}}}",
        series(LIGHT),
        series(DARK)
    )
}

/// The class of a series, as an attribute.
#[must_use]
pub fn series(index: usize) -> String {
    format!("class=\"a{}\"", index % SERIES)
}

/// The attributes of a field that shows how much of `most` an amount is: the more, the stronger its colour, so that
/// both light and dark pages show it. Nothing is no colour at all.
#[must_use]
pub fn field(class: &str, amount: u64, most: u64) -> String {
    let share = shown(strength(amount, most));
    format!("class=\"{class}\" fill-opacity=\"{share}\"")
}

/// The same of a line, whose strength is known.
#[must_use]
pub fn stroke(class: &str, strength: u64) -> String {
    let share = shown(strength);
    format!("class=\"{class}\" stroke-opacity=\"{share}\"")
}

/// How strong the colour of an amount is, in hundredths: 0 for nothing, and at least 12 for something.
#[must_use]
pub fn strength(amount: u64, most: u64) -> u64 {
    if amount == 0 {
        return 0;
    }
    let most = most.max(1);
    let (amount, most) = (u128::from(amount.min(most)), u128::from(most));
    12 + u64::try_from(88 * amount / most).unwrap_or(88)
}

fn shown(hundredths: u64) -> String {
    match hundredths {
        100.. => "1".to_owned(),
        0..10 => format!(".0{hundredths}"),
        _ => format!(".{hundredths}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_stronger_and_nothing_is_nothing() {
        assert_eq!(strength(0, 10), 0);
        assert_eq!(strength(1, u64::MAX), 12);
        assert!(strength(5, 10) < strength(6, 10));
        assert_eq!(field("heat", 10, 10), "class=\"heat\" fill-opacity=\"1\"");
        assert_eq!(stroke("hot", 12), "class=\"hot\" stroke-opacity=\".12\"");
        assert_eq!((strength(7, 0), strength(9, 3)), (100, 100));
    }

    #[test]
    fn every_class_has_a_colour_on_light_and_on_dark() {
        let style = style();
        let (light, dark) = style.split_once("@media").expect("both");
        for class in [
            ".a0", ".a5", ".heat", ".hot", ".warm", ".card", ".bare", ".paper", ".axis",
        ] {
            let rule = format!("{class}{{");
            assert!(light.contains(&rule) && dark.contains(&rule), "{class}");
        }
        assert!(!style.contains('<') && !style.contains("url("), "{style}");
    }
}
