/**
 * The most bytes of payloads in one page of a list or a history: 8 MiB. A page ends earlier than its `limit` where it would
 * be larger, and says where the next one begins. An entry that is larger comes alone.
 */
export const maxPageBytes = 8 * 1024 * 1024;
