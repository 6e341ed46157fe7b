#pragma once
// Stands for a header of Highway that device code does not need.
