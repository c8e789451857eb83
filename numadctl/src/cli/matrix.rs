//! Arguments of `matrix`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Which;

/// Arguments of `matrix`.
#[derive(Clone, Debug, Args)]
pub struct Matrix {
    /// Attachment, or process of one; `id:3` and `pid:3` tell them apart
    #[arg(value_name = "ID|PID")]
    pub which: Which,
    /// What to show: the last window, or all windows with older ones counting less; or the bytes that MPI ranks have sent
    /// each other since they began, or are taken to have sent in collective calls. Of an attachment that has ended
    /// `decayed` alone is kept
    #[arg(long, value_enum, default_value = "decayed")]
    pub window: Window,
    #[command(flatten)]
    form: MatrixForm,
    /// Most columns of the picture in the terminal; 0 takes the variable COLUMNS, else 80
    #[arg(long, value_name = "COLUMNS", default_value_t = 0)]
    pub width: usize,
}

#[derive(Clone, Debug, Args)]
#[group(multiple = false)]
struct MatrixForm {
    /// Answer in comma-separated values
    #[arg(long)]
    csv: bool,
    /// Draw a heat map into FILE; `-` is standard output
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// How a picture is given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// For a terminal.
    Text,
    /// As comma-separated values.
    Csv,
    /// As JSON.
    Json,
    /// As a drawing, into this file or, with `-`, to standard output.
    Svg(PathBuf),
}

impl Matrix {
    /// How to answer.
    #[must_use]
    pub fn form(&self) -> Form {
        match &self.form {
            MatrixForm {
                svg: Some(file), ..
            } => Form::Svg(file.clone()),
            MatrixForm { csv: true, .. } => Form::Csv,
            MatrixForm { json: true, .. } => Form::Json,
            MatrixForm { .. } => Form::Text,
        }
    }
}

/// What a matrix is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Window {
    /// Those of the last window.
    Live,
    /// Those of all windows, older ones counting less.
    Decayed,
    /// Bytes of messages.
    Messages,
    /// Bytes that collective calls are taken to send.
    Modelled,
}

impl Window {
    /// As the daemon calls it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Decayed => "decayed",
            Self::Messages => "messages",
            Self::Modelled => "modelled",
        }
    }
}
