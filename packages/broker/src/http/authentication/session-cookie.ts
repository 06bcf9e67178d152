// The cookie of a console session. With TLS its name has the `__Host-` prefix, so that sibling domains cannot set it. Without TLS browsers
// refuse that prefix, and the broker listens on loopback only.
export interface SessionCookie {
  readonly name: string
  readonly scheme: 'http' | 'https'
  set(token: string, seconds: number): string
  readonly cleared: string
}

export function sessionCookie({ isTls }: { isTls: boolean }): SessionCookie {
  const name = isTls ? '__Host-brokkr_session' : 'brokkr_session'
  const attributes = `Path=/; HttpOnly; SameSite=Strict${isTls ? '; Secure' : ''}`
  return {
    name,
    scheme: isTls ? 'https' : 'http',
    set: (token, seconds) => `${name}=${token}; Max-Age=${Math.floor(seconds)}; ${attributes}`,
    cleared: `${name}=; Max-Age=0; ${attributes}`,
  }
}
