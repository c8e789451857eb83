//! Which of the two communication matrices a policy looks at: a setting that several share.

use numad_core::{CommMatrix, Program, SettingKind, SettingSpec, Settings};

/// This window's communication, or that of all windows with the older ones counting less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatrixChoice {
    Live,
    Decayed,
}

impl MatrixChoice {
    /// The setting. The paper looks at the last interval alone, so that what was before does not
    /// hide a change (OnDeLoc-MPI, "Step 2").
    pub(crate) const SPEC: SettingSpec = SettingSpec {
        name: "matrix",
        kind: SettingKind::Choice(&["live", "decayed"], "live"),
        help: "Communication in the last window alone, or in all windows with older ones counting \
               less: steadier where samples are few, a window or two later when partners change.",
    };

    /// What was chosen.
    pub(crate) fn new(settings: &Settings) -> Self {
        if settings.text(Self::SPEC.name) == "decayed" {
            Self::Decayed
        } else {
            Self::Live
        }
    }

    /// The matrix that was chosen.
    ///
    /// # Panics
    /// When it is not about the program's tasks: any decision would move the wrong ones.
    pub(crate) fn of<'a>(self, program: &Program<'a>) -> &'a CommMatrix {
        let matrix = match self {
            Self::Live => program.live,
            Self::Decayed => program.decayed,
        };
        assert_eq!(
            matrix.count(),
            program.tasks.len(),
            "the matrix is about other tasks"
        );
        matrix
    }
}
