//! Transforms where the command is built without them: asking for one is refused.

use fullbore_read::error::{Error, Result};

use crate::job::TableJob;

fn refused(job: &TableJob) -> Result<()> {
    match job.is_transformed() {
        false => Ok(()),
        true => Err(Error::usage_with_hint(
            "this build of fullbore has no transforms: select, where, check and lookup",
            "install a build with the feature `transform`",
        )),
    }
}

pub mod found {
    /// None there can be.
    #[derive(Debug)]
    pub enum Found {}
}

pub mod lookups {
    use std::sync::Arc;

    use fullbore_read::StoreOptions;
    use fullbore_read::error::Result;

    use super::found::Found;
    use crate::job::TableJob;
    use crate::target::Target;

    pub fn read<T: Target>(
        job: &TableJob,
        _: &StoreOptions,
        _: Option<&T>,
    ) -> Result<Vec<Arc<Found>>> {
        super::refused(job).map(|()| Vec::new())
    }
}

pub mod asked {
    use std::collections::BTreeMap;

    use fullbore_parse::types::{FieldType, ParseColumn};
    use fullbore_read::error::Result;

    use super::apply::Transform;
    use crate::TargetColumn;
    use crate::job::TableJob;
    use crate::plan::look::Sources;

    type Guess<'a> = &'a dyn Fn(&TableJob, &Sources) -> Result<BTreeMap<String, FieldType>>;

    /// None there can be.
    pub struct Asked {
        pub field_names: Vec<String>,
        pub renamed: Vec<(String, usize)>,
        pub computed: Vec<Computed>,
        pub(super) never: Transform,
    }

    /// None there can be.
    pub struct Computed {
        pub name: String,
    }

    pub fn asked(
        job: &TableJob,
        _: &Sources,
        _: Option<&[TargetColumn]>,
        _: i64,
        _: Guess<'_>,
    ) -> Result<Option<Asked>> {
        super::refused(job).map(|()| None)
    }

    pub fn made(
        job: &TableJob,
        _: &Sources,
        fields: Vec<(String, FieldType)>,
        _: Guess<'_>,
    ) -> Result<Vec<(String, FieldType)>> {
        super::refused(job).map(|()| fields)
    }

    impl Asked {
        pub fn needs_no_column(&self, _: &str) -> bool {
            match self.never {}
        }

        pub fn read(&self, _: bool) -> impl Iterator<Item = ParseColumn> {
            std::iter::empty()
        }

        pub fn sent(&self, _: bool) -> impl Iterator<Item = ParseColumn> {
            std::iter::empty()
        }
    }
}

pub mod apply {
    use std::sync::Arc;

    use arrow_array::RecordBatch;
    use fullbore_parse::Lane;
    use fullbore_parse::types::ParseShape;
    use fullbore_read::error::Result;

    use super::asked::Asked;
    use crate::plan::applied::Applied;

    /// None there can be.
    #[derive(Debug)]
    pub enum Transform {}

    impl Transform {
        pub fn new(asked: Asked, _: Arc<ParseShape>, _: Arc<ParseShape>) -> Self {
            asked.never
        }

        pub fn shape(&self, _: Lane) -> &Arc<ParseShape> {
            match *self {}
        }

        pub fn expression(&self, _: &str) -> Option<&str> {
            match *self {}
        }

        pub fn conditions(&self) -> Vec<String> {
            match *self {}
        }

        pub fn apply(&self, _: &RecordBatch, _: Lane) -> Result<Applied> {
            match *self {}
        }
    }
}
