#pragma once
// Replaces a header of Highway that device code does not need.
