// The Authorization header of requests to a server: fixed, or an access token that is renewed before it expires.
import type { Outbound } from '@brokkr/runtime/http-client/outbound-client.ts'
import { type ConnectorContext, ConnectorError } from './connector.ts'

export interface AuthConfig {
  readonly auth: 'none' | 'basic' | 'bearer' | 'oauth2'
  readonly basicAuth?: { readonly username?: string | undefined; readonly password?: string | undefined } | undefined
  readonly bearerToken?: string | undefined
  readonly oauth2?:
    | {
        readonly tokenURL: string
        readonly clientID?: string | undefined
        readonly clientSecret?: string | undefined
        readonly scope?: string | undefined
      }
    | undefined
}

/** Classifies a failure of the outbound client, or a status that is not 200. */
export type ToAuthError = (failure: { readonly thrown: unknown } | { readonly status: number }, doing: string) => ConnectorError

/** A token is renewed after this part of its life. */
const renewedAt = 0.8
/** For a server that does not say how long a token lives. */
const defaultLifeSeconds = 300

export class Authorization {
  readonly #config: AuthConfig
  readonly #context: ConnectorContext
  readonly #outbound: Outbound
  readonly #toError: ToAuthError
  #token: { readonly header: string; readonly renewAtMs: number } | undefined

  constructor(config: AuthConfig, context: ConnectorContext, outbound: Outbound, toError: ToAuthError) {
    this.#config = config
    this.#context = context
    this.#outbound = outbound
    this.#toError = toError
  }

  async headers(): Promise<Readonly<Record<string, string>>> {
    const { auth, basicAuth, bearerToken } = this.#config
    if (auth === 'basic') {
      const credentials = Buffer.from(`${basicAuth?.username ?? ''}:${basicAuth?.password ?? ''}`).toString('base64')
      this.#context.addSecret(credentials)
      return { authorization: `Basic ${credentials}` }
    }
    if (auth === 'bearer') return { authorization: `Bearer ${bearerToken ?? ''}` }
    return auth === 'oauth2' ? { authorization: await this.#accessToken() } : {}
  }

  /** True if another token may be accepted. */
  renew(): boolean {
    this.#token = undefined
    return this.#config.auth === 'oauth2'
  }

  async #accessToken(): Promise<string> {
    const nowMs = this.#context.clock.monotonicMs()
    if (this.#token === undefined || nowMs >= this.#token.renewAtMs) this.#token = await this.#request(nowMs)
    return this.#token.header
  }

  async #request(nowMs: number): Promise<{ header: string; renewAtMs: number }> {
    const { tokenURL = '', clientID = '', clientSecret = '', scope } = this.#config.oauth2 ?? {}
    const form = {
      grant_type: 'client_credentials',
      client_id: clientID,
      client_secret: clientSecret,
      ...(scope === undefined ? {} : { scope }),
    }
    const doing = 'get an access token'
    const answer = await this.#outbound
      .request({
        url: tokenURL,
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
        body: new URLSearchParams(form).toString(),
      })
      .catch((thrown: unknown) => {
        throw this.#toError({ thrown }, doing)
      })
    // Servers answer 400 for wrong credentials.
    if (answer.status !== 200) throw this.#toError({ status: answer.status === 400 ? 401 : answer.status }, doing)
    return this.#readToken(answer.body.toString('utf8'), nowMs)
  }

  #readToken(text: string, nowMs: number): { header: string; renewAtMs: number } {
    const { access_token: token, expires_in: life = defaultLifeSeconds } = parseObject(text)
    if (typeof token !== 'string' || token === '')
      throw new ConnectorError({ class: 'config', type: 'auth_error' }, 'cannot get an access token: the answer has no access_token')
    this.#context.addSecret(token)
    const lifeSeconds = Number(life) > 0 ? Number(life) : defaultLifeSeconds
    return { header: `Bearer ${token}`, renewAtMs: nowMs + lifeSeconds * 1000 * renewedAt }
  }
}

function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}
