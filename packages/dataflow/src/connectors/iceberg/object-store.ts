// Reads, writes and deletes objects of an S3 service through the outbound client. Requests are signed with the flow's keys, with keys that
// the catalog lends, or by the catalog itself.
import { createHash } from 'node:crypto'
import type { OutboundRequest, OutboundResponse } from '@brokkr/runtime/http-client/outbound-client.ts'
import { AwsV4Signer } from 'aws4fetch'
import type { ConnectorContext } from '../connector.ts'
import type { CatalogClient } from './catalog-client.ts'
import { configError, IcebergRejection } from './errors.ts'
import type { AnyConfig } from './place.ts'

interface Settings {
  readonly endpoint: string | undefined
  readonly region: string
  readonly isPathStyle: boolean
  readonly keys: { readonly accessKeyId: string; readonly secretAccessKey: string; readonly sessionToken?: string } | undefined
  /** Address that signs requests. */
  readonly signer: string | undefined
}

const objectBytesMax = 1 << 30
const requestMs = 120_000

export class ObjectStore {
  readonly #catalog: CatalogClient
  readonly #context: ConnectorContext
  readonly #config: AnyConfig
  #settings: Settings | undefined

  constructor(config: AnyConfig, catalog: CatalogClient, context: ConnectorContext) {
    this.#config = config
    this.#catalog = catalog
    this.#context = context
  }

  /** Settings of a table that was just loaded: keys that the catalog lends expire. */
  use(config: Readonly<Record<string, string>>): void {
    this.#settings = this.#toSettings(config)
  }

  async put(location: string, body: Uint8Array, signal?: AbortSignal): Promise<void> {
    await this.#send({ method: 'PUT', body }, location, signal)
  }

  async get(location: string, signal?: AbortSignal): Promise<Buffer> {
    return (await this.#send({ method: 'GET' }, location, signal)).body
  }

  /** Bytes `from` to `to`, without the last. */
  async getRange(location: string, from: number, to: number, signal?: AbortSignal): Promise<Buffer> {
    const { body } = await this.#send({ method: 'GET', headers: { range: `bytes=${from}-${to - 1}` } }, location, signal)
    // A server that ignores the range sends everything.
    return body.length > to - from ? body.subarray(from, to) : body
  }

  async delete(location: string, signal?: AbortSignal): Promise<void> {
    await this.#send({ method: 'DELETE' }, location, signal)
  }

  async #send(request: Omit<OutboundRequest, 'url'>, location: string, signal?: AbortSignal): Promise<OutboundResponse> {
    const settings = this.#settings
    if (settings === undefined) throw configError('the object store of the table is not known yet')
    const url = toUrl(location, settings)
    const signed = await this.#sign(request, url, settings, signal)
    const answer = await this.#catalog.outbound.request({
      ...request,
      ...signed,
      timeoutMs: requestMs,
      answerBytesMax: objectBytesMax,
      ...(signal === undefined ? {} : { signal }),
    })
    if (answer.status >= 200 && answer.status < 300) return answer
    const kind = /<Code>(\w+)<\/Code>/.exec(answer.body.subarray(0, 4096).toString('latin1'))?.[1] ?? ''
    throw new IcebergRejection('object store', { status: answer.status, kind })
  }

  async #sign(
    request: Omit<OutboundRequest, 'url'>,
    url: string,
    settings: Settings,
    signal: AbortSignal | undefined,
  ): Promise<{ url: string; headers: Record<string, string> }> {
    const { method = 'GET', body = '' } = request
    const hash = createHash('sha256').update(body).digest('hex')
    const headers = { ...request.headers, 'x-amz-content-sha256': hash }
    if (settings.keys !== undefined) {
      const signer = new AwsV4Signer({ method, url, headers, service: 's3', region: settings.region, ...settings.keys, allHeaders: true })
      const signed = await signer.sign()
      return { url: signed.url.href, headers: withoutHost(signed.headers) }
    }
    if (settings.signer === undefined)
      throw configError('there are no S3 keys: set accessKey and secretAccessKey, or let the catalog lend keys or sign requests')
    const lists = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]))
    const answer = (await this.#catalog.postOwn(
      settings.signer,
      { method, region: settings.region, uri: url, headers: lists },
      signal,
    )) as {
      uri?: string
      headers?: Record<string, string[]>
    }
    const signed = Object.entries(answer.headers ?? {}).map(([name, values]) => [name.toLowerCase(), values.join(',')] as const)
    return { url: answer.uri ?? url, headers: withoutHost(new Headers({ ...headers, ...Object.fromEntries(signed) })) }
  }

  #toSettings(table: Readonly<Record<string, string>>): Settings {
    const { s3Endpoint, s3Region, accessKey, secretAccessKey } = this.#config
    const endpoint = s3Endpoint ?? table['s3.endpoint']
    const [lentKey, lentSecret, sessionToken] = [table['s3.access-key-id'], table['s3.secret-access-key'], table['s3.session-token']]
    for (const secret of [lentSecret, sessionToken]) if (secret !== undefined) this.#context.addSecret(secret)
    const isLent = accessKey === undefined && lentKey !== undefined && lentSecret !== undefined
    return {
      endpoint,
      region: s3Region ?? table['client.region'] ?? table['s3.region'] ?? 'us-east-1',
      isPathStyle: table['s3.path-style-access'] === 'true' || (s3Endpoint !== undefined && table['s3.path-style-access'] !== 'false'),
      keys:
        accessKey !== undefined && secretAccessKey !== undefined
          ? { accessKeyId: accessKey, secretAccessKey }
          : isLent
            ? { accessKeyId: lentKey, secretAccessKey: lentSecret, ...(sessionToken === undefined ? {} : { sessionToken }) }
            : undefined,
      signer: table['s3.remote-signing-enabled'] === 'true' ? this.#signerOf(table) : undefined,
    }
  }

  #signerOf(table: Readonly<Record<string, string>>): string {
    const endpoint = table['s3.signer.endpoint'] ?? 'v1/aws/s3/sign'
    const uri = table['s3.signer.uri']
    // An unreadable address is refused when it is used.
    return uri === undefined ? this.#catalog.resolve(endpoint) : (URL.parse(endpoint, `${uri.replace(/\/+$/, '')}/`)?.href ?? uri)
  }
}

/** `s3://bucket/key` as an address of the service. Locations come from metadata: none may lead to another host or bucket. */
export function toUrl(location: string, { endpoint, region, isPathStyle }: Pick<Settings, 'endpoint' | 'region' | 'isPathStyle'>): string {
  const [, bucket, key] = /^s3[an]?:\/\/([^/]+)\/(.+)$/.exec(location) ?? []
  if (bucket === undefined || key === undefined) throw configError(`${location.split(':')[0]} is not a supported object store: only S3 is`)
  const isSafe = /^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(bucket) && !key.split('/').some((part) => part === '.' || part === '..')
  if (!isSafe) throw configError('the table names a file whose bucket or path is not valid')
  const path = key.split('/').map(encodeURIComponent).join('/')
  const base = new URL(endpoint ?? `https://s3.${region}.amazonaws.com`)
  if (isPathStyle) return `${base.origin}/${bucket}/${path}`
  return `${base.protocol}//${bucket}.${base.host}/${path}`
}

/** The outbound client sets it itself. */
function withoutHost(headers: Headers): Record<string, string> {
  const entries = Object.fromEntries(headers)
  delete entries['host']
  return entries
}
