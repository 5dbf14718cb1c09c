#include "modes/inspect/picture_image.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/status.h"
#include "base/text.h"

/* ---- Bytes ----------------------------------------------------------------------------------- */

static void image_put(TextBuffer *b, const void *data, size_t n) {
    text_put(b, data, n, 0);
}

/* Most significant byte first, as PNG has its numbers. */
static void put_number(TextBuffer *b, uint32_t x) {
    const uint8_t bytes[] = {(uint8_t)(x >> 24), (uint8_t)(x >> 16), (uint8_t)(x >> 8), (uint8_t)x};
    image_put(b, bytes, sizeof bytes);
}

/* ---- DEFLATE (RFC 1951): one block of fixed codes, whose matches repeat the byte before -------
 */

/* Bits that are not yet a byte of `out`, the lowest first. */
typedef struct BitWriter {
    TextBuffer *out;
    uint32_t bits;
    unsigned n_bits;
} BitWriter;

static void put_bits(BitWriter *b, uint32_t bits, unsigned n) {
    b->bits |= bits << b->n_bits;
    for (b->n_bits += n; b->n_bits >= 8; b->n_bits -= 8, b->bits >>= 8) {
        uint8_t byte = (uint8_t)b->bits;
        image_put(b->out, &byte, 1);
    }
}

/* A Huffman code, whose highest bit comes first. */
static void put_code(BitWriter *b, uint32_t code, unsigned n) {
    while (n-- > 0) put_bits(b, code >> n & 1, 1);
}

/* Appends a symbol's code of DEFLATE's fixed Huffman table: a literal below 144, or a length or the
 * end from 256 on. */
static void put_symbol(BitWriter *b, unsigned symbol) {
    if (symbol < 144) {
        put_code(b, 0x30 + symbol, 8);
    } else if (symbol < 280) {
        put_code(b, symbol - 256, 7);
    } else {
        put_code(b, 0xC0 + symbol - 280, 8);
    }
}

/* Repeats the byte before `length` times, from 3 to 258. */
static void put_repeat(BitWriter *b, size_t length) {
    if (length == 258) {
        put_symbol(b, 285);
    } else if (length < 11) {
        put_symbol(b, 254 + (unsigned)length);
    } else {
        /* Four codes share each number of extra bits. */
        unsigned extra = 1;
        while ((length - 3) >> (extra + 3)) extra++;
        unsigned offset = (unsigned)(length - 3) - (4u << extra);
        put_symbol(b, 261 + 4 * extra + (offset >> extra));
        put_bits(b, offset & ((1u << extra) - 1), extra);
    }
    put_code(b, 0, 5); /* distance 1 */
}

static void put_deflated(TextBuffer *out, const char *data, size_t n) {
    BitWriter writer = {.out = out}, *b = &writer;
    put_bits(b, 3, 3); /* the last block, with fixed codes */
    for (size_t i = 0; i < n;) {
        size_t run = 1, most = n - i < 259 ? n - i : 259;
        put_symbol(b, (uint8_t)data[i]);
        while (run < most && data[i + run] == data[i]) run++;
        if (run >= 4) put_repeat(b, run - 1);
        i += run >= 4 ? run : 1;
    }
    put_symbol(b, 256);
    if (b->n_bits) put_bits(b, 0, 8 - b->n_bits);
}

static uint32_t adler32(const char *data, size_t n) {
    uint32_t a = 1, sum = 0;
    for (size_t i = 0; i < n; i++) {
        a = (a + (uint8_t)data[i]) % 65521;
        sum = (sum + a) % 65521;
    }
    return sum << 16 | a;
}

/* ---- PNG (RFC 2083) -------------------------------------------------------------------------- */

static uint32_t crc32(const char *data, size_t n) {
    uint32_t crc = 0xFFFFFFFF;
    for (size_t i = 0; i < n; i++) {
        crc ^= (uint8_t)data[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    }
    return ~crc;
}

static void put_chunk(TextBuffer *png, const char *type, const void *data, size_t n) {
    size_t begin = png->length + 4;
    put_number(png, (uint32_t)n);
    image_put(png, type, 4);
    if (n) image_put(png, data, n);
    if (!png->failed) put_number(png, crc32(png->bytes + begin, n + 4));
}

static void put_header(TextBuffer *png, size_t rows, size_t columns) {
    TextBuffer header = {0};
    put_number(&header, (uint32_t)columns);
    put_number(&header, (uint32_t)rows);
    image_put(&header, (const uint8_t[]){8, 3, 0, 0, 0}, 5); /* 8 bits, a palette */
    if (header.failed) png->failed = true;
    if (!png->failed) put_chunk(png, "IHDR", header.bytes, header.length);
    text_free(&header);
}

static void put_palette(TextBuffer *png, bool both_signs) {
    uint8_t palette[PICTURE_SHADES + 1][3] = {{0}}, alpha[PICTURE_SHADES + 1];
    for (int i = 0; i < PICTURE_SHADES; i++) {
        double at = (double)i / (PICTURE_SHADES - 1);
        unsigned long rgb =
            strtoul(picture_colour(both_signs ? 2 * at - 1 : at, both_signs).text + 1, NULL, 16);
        for (int k = 0; k < 3; k++) palette[i][k] = (uint8_t)(rgb >> (16 - 8 * k));
    }
    memset(alpha, 255, sizeof alpha);
    alpha[PICTURE_CLEAR] = 0;
    put_chunk(png, "PLTE", palette[0], sizeof palette);
    put_chunk(png, "tRNS", alpha, sizeof alpha);
}

/* Appends the chunk IDAT: a zlib stream (RFC 1950) of the rows of cells, each after the number of
 * its filter. */
static void put_cells(TextBuffer *png, const uint8_t *cells, size_t rows, size_t columns) {
    TextBuffer lines = {0}, packed = {0};
    for (size_t r = 0; r < rows; r++) {
        image_put(&lines, &(uint8_t){0}, 1); /* no filter */
        image_put(&lines, cells + r * columns, columns);
    }
    image_put(&packed, (const uint8_t[]){0x78, 0x01}, 2);
    if (!lines.failed) {
        put_deflated(&packed, lines.bytes, lines.length);
        put_number(&packed, adler32(lines.bytes, lines.length));
    }
    if (lines.failed || packed.failed) png->failed = true;
    if (!png->failed) put_chunk(png, "IDAT", packed.bytes, packed.length);
    text_free(&lines);
    text_free(&packed);
}

static void add_base64(Sheet *svg, const char *data, size_t n) {
    char four[4];
    for (size_t i = 0; i < n; i += 3)
        sheet_add(svg, four, base64_encode(data + i, size_min(n - i, 3), four));
}

/* ---- The image ------------------------------------------------------------------------------- */

uint8_t picture_shade(double value, bool both_signs) {
    if (both_signs) value = (value + 1.0) / 2.0;
    if (!(value > 0.0)) return 0;
    return value >= 1.0 ? PICTURE_SHADES - 1 : (uint8_t)(value * (PICTURE_SHADES - 1) + 0.5);
}

void picture_image(Sheet *svg, double x, double y, double width, double height,
                   const uint8_t *cells, size_t rows, size_t columns, bool both_signs) {
    TextBuffer png = {0};
    image_put(&png, "\x89PNG\r\n\x1A\n", 8);
    put_header(&png, rows, columns);
    put_palette(&png, both_signs);
    put_cells(&png, cells, rows, columns);
    put_chunk(&png, "IEND", NULL, 0);
    if (png.failed) {
        svg->failed = true;
    } else {
        sheet_printf(svg,
                     "<image x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                     "preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" "
                     "xlink:href=\"data:image/png;base64,",
                     x, y, width, height);
        add_base64(svg, png.bytes, png.length);
        sheet_printf(svg, "\"/>\n");
    }
    text_free(&png);
}
