/* The page of --attention OUT.html, which needs nothing from the network. The page is
 * attention_page_head, then the JSON of the weights, then attention_page_tail. */
#ifndef ATTENTION_PAGE_H
#define ATTENTION_PAGE_H

extern const char attention_page_head[], attention_page_tail[];

#endif
