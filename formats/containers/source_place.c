#include "formats/containers/source_place.h"

bool source_place_bytes(const SourceTensor *t, size_t rows, size_t cols, size_t *data,
                        size_t *scales) {
    *scales = 0;
    if (!stored_file_bytes(t->stored, cols, cols, data)) return false;
    if (t->scales.present) {
        bool is_q4 = t->stored == STORED_Q4_0;
        if (is_q4 && (t->scales.group == 0 || cols % t->scales.group != 0)) return false;
        *scales = is_q4 ? cols / t->scales.group * sizeof(uint16_t) : cols / SOURCE_BLOCK;
        *data = cols / 2;
    }
    return size_mul(*data, rows, data) && size_mul(*scales, rows, scales);
}

static bool lies_inside(const InputFile *file, uint64_t offset, size_t bytes) {
    uint64_t end;
    return !__builtin_add_overflow(offset, bytes, &end) && end <= file->bytes;
}

bool source_place_has_scales(const Source *source, const SourceTensor *t) {
    const BlockScales *b = &t->blocks;
    size_t rows, bytes;
    if (!b->present) return true;
    if (b->rows == 0 || b->cols == 0 || b->per_row == 0 || t->stored_rows == 0 ||
        !size_add(b->first, t->stored_rows, &rows) || (t->stored_cols - 1) / b->cols >= b->per_row)
        return false;
    rows = (rows - 1) / b->rows + 1;
    return size_mul(rows, b->per_row, &bytes) &&
           size_mul(bytes, stored_type_info(b->type)->block_bytes, &bytes) &&
           lies_inside(&source->files[b->file], b->offset, bytes);
}

/* Whether the whole stored tensor lies inside its file (and its scales inside theirs). */
static bool is_in_file(const Source *source, const SourceTensor *t) {
    size_t bytes, scale_bytes, elements, group_bytes = 0;
    if (t->ternary_scale != 0.0f)
        return t->stored_rows % 4 == 0 && size_mul(t->stored_rows / 4, t->stored_cols, &bytes) &&
               stored_bytes(t->stored, t->stored_cols, &elements) &&
               lies_inside(&source->files[t->file], t->offset, bytes);
    if (!source_place_bytes(t, t->stored_rows, t->stored_cols, &bytes, &scale_bytes) ||
        !source_place_has_scales(source, t))
        return false;
    /* llama2.c's float32 scales follow the codes. */
    if (t->group && (!size_mul(t->stored_rows, t->stored_cols, &elements) ||
                     !size_mul(elements / t->group, sizeof(float), &group_bytes)))
        return false;
    if (!size_add(bytes, group_bytes, &bytes)) return false;
    return lies_inside(&source->files[t->file], t->offset, bytes) &&
           (!t->scales.present ||
            lies_inside(&source->files[t->scales.file], t->scales.offset, scale_bytes));
}

/* One past the last stored row that row `rows` - 1 of the tensor maps to (whole chunks counted). */
static size_t end_of_rows(const RowMap *map, size_t rows) {
    if (map->chunk == 0) return map->first + rows;
    return map->first + (rows - 1) / map->chunk * map->stride + map->chunk;
}

/* Checks the bytes of the stored tensor against its file, then its shape against the tensor. */
Status source_check_tensor(const Source *source, const SourceTensor *t, Error *error) {
    if (t->values || t->shares || t->stored == STORED_RANDOM || t->stored == STORED_PANELS)
        return STATUS_OK;
    const InputFile *file = &source->files[t->file];
    if (!is_in_file(source, t))
        return error_set(error,
                         "%s: tensor '%s': %zu x %zu values of %s at offset %llu do not "
                         "fit into the file of %llu bytes",
                         file->path, t->name, t->stored_rows, t->stored_cols,
                         stored_type_info(t->stored)->name, (unsigned long long)t->offset,
                         (unsigned long long)file->bytes);
    if (t->transposed && stored_type_info(t->stored)->row_scale)
        return error_set(error,
                         "%s: tensor '%s': %s has a scale for each row, but its rows are inputs",
                         file->path, t->name, stored_type_info(t->stored)->name);
    size_t have_rows = t->transposed ? t->stored_cols : t->stored_rows;
    size_t have_cols = t->transposed ? t->stored_rows : t->stored_cols;
    if (t->rows == 0 || end_of_rows(&t->map, t->rows) > have_rows || t->cols != have_cols)
        return error_set(error, "%s: tensor '%s': %zu x %zu, but the file holds %zu x %zu",
                         file->path, t->name, t->rows, t->cols, have_rows, have_cols);
    return STATUS_OK;
}

size_t source_place_tiled(const HeadTiles *tiles, size_t i, size_t *run) {
    if (i < tiles->first) {
        if (*run > tiles->first - i) *run = tiles->first - i;
        return i;
    }
    size_t at = (i - tiles->first) % tiles->width, head = (i - tiles->first) / tiles->width;
    size_t group = head % tiles->groups, of_group = head / tiles->groups;
    if (*run > tiles->width - at) *run = tiles->width - at;
    return tiles->first + (group * tiles->per_group + of_group) * tiles->width + at;
}

size_t source_place_rows(const SourceTensor *t, size_t r, size_t n, size_t *stored_row) {
    const RowMap *map = &t->map;
    if (map->head > 0) {
        size_t at = r % map->head, half = map->head / 2;
        *stored_row = r - at + (at < half ? 2 * at : 2 * (at - half) + 1);
        return 1;
    }
    if (map->tiles.groups > 0) {
        *stored_row = map->first + source_place_tiled(&map->tiles, r, &n);
        return n;
    }
    if (map->chunk == 0) {
        *stored_row = map->first + r;
        return n;
    }
    *stored_row = map->first + r / map->chunk * map->stride + r % map->chunk;
    size_t left = map->chunk - r % map->chunk;
    return n < left ? n : left;
}

size_t source_stored_row(const SourceTensor *tensor, size_t row) {
    size_t stored_row;
    source_place_rows(tensor, row, 1, &stored_row);
    return stored_row;
}
