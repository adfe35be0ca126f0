//! The memory of a chat: what the model reads, and what it may write.
