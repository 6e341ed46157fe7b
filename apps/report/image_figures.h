#pragma once
// Draws figures of a small ViT that is trained plain and with shuffled rows while the page is made.

#include "apps/report/gradient_figures.h"
#include "training/vit_trainer.h"

#include <cstdint>
#include <string>

namespace eg::report {

/// Image i as it is in the data, [C, H, W] in f32, values 0 to 255.
Tensor raw_image(const data::ImageDataset& data, std::int64_t i);

/// Pictures of the trainer's first test images, `most` of them: original, patches permuted by P_R, then the elements
/// within each patch too, or instead.
void add_shuffles(Page& page, const training::VitTrainer& trainer, std::int64_t most = 3);

/// The options of that training: tens of steps, in f64, plain and with rows permuted from one initialisation.
training::VitOptions small_training(const std::string& data, const std::string& data_dir, std::uint64_t seed);

/// Trains to the end and shows how position embeddings look to each other (paper 001, Fig. 9): before, after training
/// plain, after training with rows permuted, and the sinusoidal ones.
void add_position_maps(Page& page, training::VitTrainer& trainer, const ProgressCallback& on_progress);

} // namespace eg::report
