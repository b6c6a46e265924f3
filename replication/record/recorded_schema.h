#pragma once
// The schema in a recording. It says which required components and structs there are, as a client's hello
// does, and describes the lanes of the optional components, so that a program without some of them can skip
// these.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../schema/schema.h"

namespace shoal::replication::impl {

/// Appends a description of the schema.
void describe_schema(const Schema& schema, std::vector<std::byte>& out);

/// Returns a schema that decodes a recording with this description. Its components have the types of
/// `schema`; the optional ones that `schema` lacks, or has in another form, have none. Optional components
/// that only `schema` has are left out. Returns nothing if the description is malformed, or if another part
/// of the schemas differs: `why` then says which. Any bytes are safe.
std::optional<Schema> recorded_schema(const Schema& schema, std::span<const std::byte> description,
                                      std::string& why);

}  // namespace shoal::replication::impl
