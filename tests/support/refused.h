#pragma once
// Answers of a cloud that refuses.

#include "apps/net/message.h"

#include <doctest/doctest.h>

#define CHECK_REFUSED(message, refusal)                                                                                \
  do {                                                                                                                 \
    const eg::net::Message checked = (message);                                                                        \
    CHECK(checked.kind == eg::net::MessageKind::refused);                                                              \
    CHECK(name_of(checked.code) == name_of(refusal));                                                                  \
    CHECK(!checked.text.empty());                                                                                      \
  } while (false)
