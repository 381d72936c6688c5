#include "recipe/data_options.h"

#include "recipe/option.h"

namespace longhaul::recipe {

void declare(OptionSet& set, DataOptions& data) {
  set.add(
         "data.source", data.source,
         "Files or folders of text or JSONL, plain or compressed with zstd or gzip; \"libtorch\" is the Python source text inside the LibTorch in use.")
      .also_called({"path", "paths", "dataset", "corpus", "train_data", "files"});
  set.add("data.weights", data.weights, "Share of each source in the blend, one number per source; empty: by size.").above(0).at_most(1e12);
  set.add("data.include", data.include, "File endings that are read inside folders, such as \".py\"; empty: every text file.")
      .also_called({"extensions", "endings", "glob"});
  set.add("data.jsonl_field", data.jsonl_field, "Key that holds the text of a document in JSONL files.")
      .also_called({"text_field", "text_key"});
  set.add(
      "data.tokenizer", data.tokenizer,
      "Path of a tokenizer.json; \"train\" trains one on the training part and keeps it in the cache; \"bytes\" makes every byte a token.");
  set.add("data.vocabulary", data.vocabulary, "Entries of the tokenizer when it is trained here.")
      .unit("entries")
      .at_least(257)
      .at_most(1 << 24);
  set.add("data.held_out_percent", data.held_out_percent,
          "Documents held out for evaluation: those whose path hash modulo 100 is below this.")
      .unit("percent")
      .at_least(0)
      .at_most(99)
      .also_called({"validation_percent", "val_split"});
  set.add("data.remove_copies", data.remove_copies, "Of documents with equal bytes only the first is kept.")
      .also_called({"deduplicate", "dedup"});
  set.add("data.document_boundaries", data.document_boundaries,
          "Attention and recurrences never reach from one document into the next in the same sequence.");
  set.add("data.seed", data.seed, "Seed of the order in which samples are read; train.seed does not touch it.").at_least(0);
  set.add("data.prefetch", data.prefetch, "Micro-batches prepared ahead of the trainer.")
      .unit("micro-batches")
      .at_least(1)
      .at_most(4096)
      .may_change();
  set.add("data.cache", data.cache, "Folder for token shards and trained tokenizers; empty: the user's cache folder.")
      .also_called({"cache_dir"})
      .may_change();
}

}  // namespace longhaul::recipe
