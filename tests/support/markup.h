#pragma once
// Whether markup is well formed, as XML asks for it.

#include <string>
#include <vector>

namespace eg::test {

/// Why a piece of markup, or a whole HTML page, is not well formed; empty when it is: every element is closed in its
/// order (but for HTML's void elements), attributes are quoted and given once, & and < stand for nothing else. What is
/// in <style> is not looked at.
std::string fault_of_markup(const std::string& markup);

/// The elements of one name, from <name to </name>, those inside another one of them not apart.
std::vector<std::string> elements(const std::string& markup, const std::string& name);

/// A copy without tags; entities stay.
std::string without_tags(const std::string& markup);

} // namespace eg::test
