/* The self-contained page of --attention OUT.html: what stands before and after its numbers. */
#ifndef ATTENTION_PAGE_H
#define ATTENTION_PAGE_H

extern const char attention_page_head[], attention_page_tail[];

#endif
