//! The model and the loop, without I/O: samples, tables, the policy trait, the cost model, the
//! guard, interval laws, and the engine that joins them.
//!
//! No clock, file, thread, log line or hash order in here: the same calls give the same actions.

#![forbid(unsafe_code)]

pub mod action;
mod activity;
mod capacity;
pub mod cost;
pub mod engine;
mod evening;
pub mod event;
pub mod evidence;
pub mod figures;
mod guard;
mod hold;
pub mod interval;
mod likeness;
pub mod matrix;
pub mod observation;
pub mod policy;
mod pressure;
pub mod published;
pub mod recorder;
pub mod sample;
pub mod setting;
pub mod support;
mod tables;
pub mod time;

pub use action::{Action, AttachmentId, Host, Outcome, PageOutcome, Reach, Refusal};
pub use engine::{AttachError, AttachOptions, Bind, Engine, EngineOptions, Totals, WantedPage};
pub use evening::Evenness;
pub use event::{Event, EventKind, NoRoom, WindowSummary};
pub use evidence::{Certainty, Evidence};
pub use interval::{Change, Interval, IntervalLaw};
pub use matrix::CommMatrix;
pub use observation::{
    AttachSpec, NodeTraffic, ObjectId, ObjectKind, Observation, ObservedMaps, ObservedProgram,
    ObservedSharing, ObservedTask, Progress, SharedRange, TaskState,
};
pub use policy::{
    Accessor, Fate, Page, PageKey, PageRecord, Plan, Policy, PolicyFactory, Program, Proposal,
    Reason, SpaceId, Task, Veto,
};
pub use published::{Method, Published};
pub use recorder::Recorder;
pub use sample::{AccessKind, Lifecycle, Record, Sample, Sent, ServedBy};
pub use setting::{SettingKind, SettingSpec, SettingValue, Settings, SettingsError};
pub use support::Support;
pub use tables::shares::OBJECTS_MAX;
pub use time::Time;
