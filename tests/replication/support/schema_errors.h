#pragma once
// What is wrong with a component, as its schema says.

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "replication/schema/schema.h"

namespace shoal::replication::impl::schema_errors {

template <class T>
std::string error_of() {
    Schema schema;
    schema.component<T>("culprit");
    return schema.error();
}

inline void expect_words(const std::string& error, std::initializer_list<std::string_view> words) {
    for (const std::string_view word : words)
        EXPECT_NE(error.find(word), std::string::npos) << "'" << word << "' is not in: " << error;
}

}  // namespace shoal::replication::impl::schema_errors
