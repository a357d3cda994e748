/** Whether a store is named by a URL of PostgreSQL. Apart from the provider, so that asking does not load the driver. */
export function isPostgresUrl(url: unknown): url is string {
  return typeof url === 'string' && /^postgres(ql)?:\/\//i.test(url) && URL.canParse(url);
}
