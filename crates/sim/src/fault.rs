//! What goes wrong in a world, when, and how often.

use std::str::FromStr;

use numad_core::Refusal;

/// Which kinds of fault happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    kinds: u8,
}

/// A kind of fault, as typed after `--fault`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Threads end, some are replaced, some of those under the same number; a program may end.
    Vanish,
    /// Binding and moving fail for every reason there is.
    Refuse,
    /// Processors go offline and come back.
    Offline,
    /// The clock that the engine is told jumps forward and back.
    Clock,
    /// Most samples are lost for a while.
    Loss,
    /// Someone else changes affinities.
    Rival,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Vanish,
        Self::Refuse,
        Self::Offline,
        Self::Clock,
        Self::Loss,
        Self::Rival,
    ];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vanish => "vanish",
            Self::Refuse => "refuse",
            Self::Offline => "offline",
            Self::Clock => "clock",
            Self::Loss => "loss",
            Self::Rival => "rival",
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Self::Vanish => 1,
            Self::Refuse => 2,
            Self::Offline => 4,
            Self::Clock => 8,
            Self::Loss => 16,
            Self::Rival => 32,
        }
    }
}

impl Faults {
    /// Nothing goes wrong.
    pub const NONE: Self = Self { kinds: 0 };

    /// Everything goes wrong.
    #[must_use]
    pub fn all() -> Self {
        Fault::ALL
            .into_iter()
            .fold(Self::NONE, |faults, fault| faults.with(fault))
    }

    /// These and one more.
    #[must_use]
    pub const fn with(self, fault: Fault) -> Self {
        Self {
            kinds: self.kinds | fault.bit(),
        }
    }

    /// Whether a kind happens.
    #[must_use]
    pub const fn has(self, fault: Fault) -> bool {
        self.kinds & fault.bit() != 0
    }

    /// Whether nothing goes wrong.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.kinds == 0
    }

    /// The words, joined by commas; `none` where there is nothing.
    #[must_use]
    pub fn names(self) -> String {
        let names: Vec<&str> = Fault::ALL
            .into_iter()
            .filter(|&fault| self.has(fault))
            .map(Fault::name)
            .collect();
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(",")
        }
    }
}

/// Words joined by commas, `all`, or `none`.
impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').try_fold(Self::NONE, |faults, word| {
            if word == "all" {
                return Ok(Self::all());
            }
            if word == "none" {
                return Ok(faults);
            }
            Fault::ALL
                .into_iter()
                .find(|fault| fault.name() == word)
                .map(|fault| faults.with(fault))
                .ok_or_else(|| {
                    let names = Fault::ALL.map(Fault::name).join(", ");
                    format!("there is no fault `{word}`; there are {names}, all, none")
                })
        })
    }
}

/// Every reason a kernel has to refuse, for drawing from.
pub(crate) const REFUSALS: [Refusal; 11] = [
    Refusal::Gone,
    Refusal::NotPermitted,
    Refusal::NotAllowed,
    Refusal::NoSuchNode,
    Refusal::NoMemory,
    Refusal::Busy,
    Refusal::Shared,
    Refusal::ChangedByOther,
    Refusal::Journal,
    Refusal::Unsupported,
    Refusal::Other(5),
];

/// Part of actions and pages that is refused.
pub(crate) const REFUSE_CHANCE: f64 = 0.25;

/// How often things go wrong, per step of the world: a few times in a run of a few seconds.
pub(crate) const VANISH_CHANCE: f64 = 0.02;
pub(crate) const OFFLINE_CHANCE: f64 = 0.01;
pub(crate) const CLOCK_CHANCE: f64 = 0.005;
pub(crate) const LOSS_CHANCE: f64 = 0.01;
pub(crate) const RIVAL_CHANCE: f64 = 0.01;

/// Part of samples that is lost while they are being lost.
pub(crate) const LOSS_PART: f64 = 0.9;

/// Steps that a loss lasts.
pub(crate) const LOSS_STEPS: u32 = 40;

/// Farthest a clock jumps.
pub(crate) const CLOCK_JUMP_NS: u64 = 3_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_written() {
        for text in ["none", "vanish", "refuse,clock"] {
            assert_eq!(text.parse::<Faults>().unwrap().names(), text);
        }
        assert!(
            Fault::ALL
                .iter()
                .all(|&kind| "all".parse::<Faults>().unwrap().has(kind))
        );
        let error = "vanish,fire".parse::<Faults>().unwrap_err();
        assert!(
            error.contains("`fire`") && error.contains("offline"),
            "{error}"
        );
    }
}
