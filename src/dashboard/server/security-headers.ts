// Responses of the API have the others.
const beyondApi = [
  ['cross-origin-opener-policy', 'same-origin'],
  [
    'permissions-policy',
    'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()',
  ],
] as const;

/** Headers of every page and file of a dashboard. */
export const securityHeaders: Readonly<Record<string, string>> = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "font-src 'self'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "base-uri 'self'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; '),
  ...Object.fromEntries(beyondApi),
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

/** Adds the headers that responses of the API do not have. Their own policy is stricter. */
export function withApiHeaders(response: Response): Response {
  for (const [name, value] of beyondApi) response.headers.set(name, value);
  return response;
}
