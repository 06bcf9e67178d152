// A call of a real broker in plain HTTP, for what a typed client would not send: its answer whole, with headers.
export interface Asked {
  readonly status: number
  readonly header: (name: string) => string | null
  readonly text: string
  readonly json: unknown
  /** Of an error; null elsewhere. */
  readonly code: string | null
}

export interface Ask {
  /** The admin's when left out, nobody's when null. */
  readonly pak?: string | null
  /** JSON, or text sent as it stands. */
  readonly body?: unknown
  readonly text?: string
  readonly headers?: Record<string, string>
}

export async function ask(broker: { url: string; adminPak: string }, call: `${string} /${string}`, options: Ask = {}): Promise<Asked> {
  const [method = 'GET', path = '/'] = call.split(' ', 2)
  const pak = options.pak === undefined ? broker.adminPak : options.pak
  const body = options.text ?? (options.body === undefined ? undefined : JSON.stringify(options.body))
  const response = await fetch(`${broker.url}/api/v1${path}`, {
    method,
    headers: {
      ...(pak === null ? {} : { authorization: `Bearer ${pak}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...options.headers,
    },
    ...(body === undefined ? {} : { body }),
  })
  const text = await response.text()
  const json = text.startsWith('{') || text.startsWith('[') ? (JSON.parse(text) as unknown) : null
  const code = response.status >= 400 ? ((json as { code?: string } | null)?.code ?? null) : null
  return { status: response.status, header: (name) => response.headers.get(name), text, json, code }
}
