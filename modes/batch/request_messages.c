#include "modes/batch/request_messages.h"

#include <ctype.h>
#include <string.h>

#include "advice/spelling.h"
#include "json/json_reader.h"

/* Keys that every chat template is taken to know, though some leave them out. */
static const char *const known[] = {
    "role",         "content",           "name",      "tool_calls",
    "tool_call_id", "reasoning_content", "reasoning", "thinking",
};

/* What only models of several modalities can take, whatever a template says of it. */
static const char *const media[] = {
    "image",     "images", "image_url", "input_image", "pixel_values", "audio", "audios",
    "audio_url", "video",  "videos",    "video_url",   "input_audio",  "file",  "files",
};

#define LENGTH(list) (sizeof(list) / sizeof *(list))

static bool is_one_of(const char *word, const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, list[i]) == 0) return true;
    return false;
}

static bool is_part_of_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

bool request_template_mentions(const ChatPrompt *chat, const char *word) {
    size_t n = strlen(word);
    const char *text = chat->text, *end = text ? text + chat->text_length : NULL;
    if (!n || !text) return false;
    for (const char *at = text; (at = memmem(at, (size_t)(end - at), word, n)); at++)
        if (!(at > text && is_part_of_word(at[-1])) && !(at + n < end && is_part_of_word(at[n])))
            return true;
    return false;
}

/* "; did you mean 'content'?", or nothing when no name of the list is near. */
static const char *suggestion(const char *word, const char *const *names, size_t n, char *text,
                              size_t size) {
    const char *near = spelling_nearest(word, names, n);
    text[0] = '\0';
    if (near) snprintf(text, size, "; did you mean '%s'?", near);
    return text;
}

/* A value that says nothing: OpenAI's answers hold such keys, and come back as messages. */
static bool is_empty(const json_t *value) {
    return json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0);
}

static Status messages_check_keys(const json_t *object, const char *const *own, size_t n_own,
                                  const char *where, const ChatPrompt *chat, Error *error) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        if (is_empty(value) || is_one_of(key, own, n_own)) continue;
        if (is_one_of(key, media, LENGTH(media)))
            return error_set(error, "%s has '%s', but this program reads only text", where, key);
        char near[64];
        if (!request_template_mentions(chat, key))
            return error_set(error, "%s: the key '%.80s' is not read by the chat template%s", where,
                             key, suggestion(key, own, n_own, near, sizeof near));
    }
    return STATUS_OK;
}

/* An element of a content that is a list, like {"type": "text", "text": "..."}. */
static Status check_part(const json_t *part, const char *where, const ChatPrompt *chat,
                         Error *error) {
    static const char *const own[] = {"type", "text"};
    const char *type = json_reader_word(json_object_get(part, "type"));
    if (json_is_string(part)) return STATUS_OK;
    if (!type)
        return error_set(error, "%s: a part of its content is not an object with a 'type'", where);
    if (strcmp(type, "text") == 0) {
        if (!json_is_string(json_object_get(part, "text")))
            return error_set(error, "%s: a part of type 'text' has no 'text'", where);
    } else if (is_one_of(type, media, LENGTH(media))) {
        return error_set(error, "%s has a part of type '%.80s', but this program reads only text",
                         where, type);
    } else if (!request_template_mentions(chat, type)) {
        return error_set(error, "%s: a part of type '%.80s' is not read by the chat template",
                         where, type);
    }
    return messages_check_keys(part, own, LENGTH(own), where, chat, error);
}

/* A role that the template does not know would reach the model as a word that it never saw, or not
 * at all. */
static Status check_role(const char *role, const char *where, const ChatPrompt *chat,
                         Error *error) {
    static const char *const usual[] = {"user", "assistant", "system"};
    char near[64];
    if (strcmp(role, "system") == 0 && chat->forms.omits_system)
        return error_set(error, "%s: the chat template leaves the system message out", where);
    if (is_one_of(role, usual, LENGTH(usual)) || request_template_mentions(chat, role))
        return STATUS_OK;
    /* LFM 2.5's template knows tools and writes the name of any role. */
    if (strcmp(role, "tool") == 0 && chat->forms.shows_results &&
        request_template_mentions(chat, "tool_calls"))
        return STATUS_OK;
    if (strcmp(role, "developer") == 0)
        return error_set(
            error, "%s: the chat template does not know the role 'developer'; use 'system'", where);
    if (strcmp(role, "human") == 0 || strcmp(role, "gpt") == 0)
        return error_set(error, "%s: the chat template does not know the role '%s'; use '%s'",
                         where, role, role[0] == 'h' ? "user" : "assistant");
    return error_set(error, "%s: the chat template does not know the role '%.80s'%s", where, role,
                     suggestion(role, usual, LENGTH(usual), near, sizeof near));
}

/* A content may be missing only where something else says what the message is. */
static Status check_content(const json_t *message, const char *where, Error *error) {
    static const char *const instead[] = {"tool_calls", "function_call", "reasoning_content",
                                          "reasoning", "thinking"};
    const json_t *content = json_object_get(message, "content");
    if (content && !json_is_null(content)) {
        bool object = json_is_string(content) || json_is_array(content) || json_is_object(content);
        return object ? STATUS_OK
                      : error_set(error, "%s: 'content' must be a text or a list of parts", where);
    }
    for (size_t i = 0; i < LENGTH(instead); i++)
        if (!json_is_null(json_object_get(message, instead[i])) &&
            json_object_get(message, instead[i]))
            return STATUS_OK;
    return error_set(error, "%s has no 'content'", where);
}

Status request_messages_are_list(const json_t *messages, Error *error) {
    size_t i;
    json_t *message;
    if (json_is_array(messages) && json_array_size(messages) == 0)
        return error_set(error, "'messages' is empty: there is nothing to answer");
    if (!json_is_array(messages))
        return error_set(error, "'messages' must be a list, like "
                                "[{\"role\": \"user\", \"content\": \"Hello\"}]");
    json_array_foreach((json_t *)messages, i, message) {
        if (!json_is_object(message) || !json_reader_word(json_object_get(message, "role")))
            return error_set(error, "'messages': number %zu is not an object with a 'role'", i + 1);
    }
    return STATUS_OK;
}

Status request_messages_are_read(const json_t *messages, const ChatPrompt *chat, Error *error) {
    size_t i, j;
    json_t *message, *part;
    json_array_foreach((json_t *)messages, i, message) {
        char where[64];
        const json_t *content = json_object_get(message, "content");
        snprintf(where, sizeof where, "'messages': number %zu", i + 1);
        if (messages_check_keys(message, known, LENGTH(known), where, chat, error) != STATUS_OK ||
            check_role(json_reader_word(json_object_get(message, "role")), where, chat, error) !=
                STATUS_OK ||
            check_content(message, where, error) != STATUS_OK)
            return STATUS_FAILED;
        if (!json_is_array(content)) continue;
        json_array_foreach((json_t *)content, j, part) {
            if (check_part(part, where, chat, error) != STATUS_OK) return STATUS_FAILED;
        }
    }
    return STATUS_OK;
}
