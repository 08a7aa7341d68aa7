//! A column of a table that is loaded into: known to the plan and to targets, which know the plan.

use fullbore_parse::types::FieldType;

/// A column of the target.
#[derive(Debug, Clone)]
pub struct TargetColumn {
    pub name: String,
    /// The destination's own name of the type, as shown in the plan.
    pub type_name: String,
    /// What fields are parsed into; `None` where the destination has no encoder for the type and
    /// takes it as text.
    pub field_type: Option<FieldType>,
    pub is_nullable: bool,
    /// The destination fills it by itself; it can't be loaded.
    pub is_generated: bool,
    /// Where it is not loaded, the destination has a value for it: a default, or the next of its
    /// sequence.
    pub fills_itself: bool,
    /// The destination takes no row of its table in a binary form, not even one without it.
    pub keeps_rows_text: bool,
}
