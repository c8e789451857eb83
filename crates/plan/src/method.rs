//! Policies that can place before a program runs.

use control::{ErrorKind, Failure};

use crate::Work;

/// How ranks or threads are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `DeLocMap`: pairs together, pairs of the same time apart.
    Deloc,
    /// The mapping kernel: those who talk most stand nearest.
    Locality,
    /// Core by core.
    Fixed,
    /// Node by node.
    Packed,
    /// One for each node in turn.
    Scatter,
    /// The loudest evenly over the nodes.
    Balance,
}

impl Method {
    const ALL: [Self; 6] = [
        Self::Deloc,
        Self::Locality,
        Self::Fixed,
        Self::Packed,
        Self::Scatter,
        Self::Balance,
    ];

    /// The policy's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deloc => "deloc",
            Self::Locality => "locality",
            Self::Fixed => "fixed",
            Self::Packed => "packed",
            Self::Scatter => "scatter",
            Self::Balance => "balance",
        }
    }

    /// The one of this name.
    ///
    /// # Errors
    /// Says why a policy cannot, or that there is none of the name.
    pub fn of(name: &str) -> Result<Self, Failure> {
        if let Some(method) = Self::ALL.into_iter().find(|method| method.name() == name) {
            return Ok(method);
        }
        let names = Self::ALL.map(Self::name);
        let choice = format!("choose one of `{}`", names.join("`, `"));
        if policies::find(name).is_ok() {
            let text = format!("policy `{name}` plans nothing: {}", why_not(name));
            return Err(Failure::new(ErrorKind::Usage, text).remedy(choice));
        }
        let meant = numad_core::setting::nearest(name, names);
        let remedy = meant.map_or(choice, |meant| format!("did you mean `{meant}`?"));
        Err(
            Failure::new(ErrorKind::NotFound, format!("there is no policy `{name}`"))
                .remedy(remedy),
        )
    }

    /// What is taken where none is named.
    #[must_use]
    pub const fn for_work(work: &Work) -> Self {
        match work.has_times() {
            true => Self::Deloc,
            false => Self::Locality,
        }
    }
}

fn why_not(name: &str) -> &'static str {
    match name {
        "none" | "linux" => "it leaves placement to the kernel",
        "interleave" | "data-only" => "it places pages, and a plan has none",
        "random" => "it places by chance, for comparisons on a running program",
        "auto" | "autopin" => "it compares other policies while the program runs",
        "lapt" | "cdsm" | "azimi" | "ptb" => "it decides by accesses while the program runs",
        _ => "it decides by what it sees while the program runs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_plans_or_is_refused_with_a_reason() {
        for factory in policies::registry() {
            let name = factory.name;
            match Method::of(name) {
                Ok(method) => assert_eq!(method.name(), name),
                Err(failure) => {
                    assert_eq!(failure.kind, ErrorKind::Usage);
                    assert!(failure.message.contains(name) && !failure.message.contains('\n'));
                }
            }
        }
        let failure = Method::of("interleave").unwrap_err();
        assert!(failure.message.contains("places pages"), "{failure}");
        let failure = Method::of("deloq").unwrap_err();
        assert_eq!(failure.kind, ErrorKind::NotFound);
        assert_eq!(failure.remedy, "did you mean `deloc`?");
        let failure = Method::of("nosuch").unwrap_err();
        assert!(failure.remedy.contains("`locality`"), "{failure}");
        assert!(
            !failure.remedy.contains("lapt"),
            "it plans nothing: {failure}"
        );
    }
}
