// Where a table is: the catalog's address, its login, and the levels of the namespace. `nessie` and `iceberg` differ here alone. Pure.
import type { IcebergSink, IcebergSource, NessieSink, NessieSource } from '@brokkr/contract/dataflow/connectors/iceberg.ts'
import type { AuthConfig } from '../http-authorization.ts'
import { configError } from './errors.ts'

export type NessieConfig = NessieSource | NessieSink
export type IcebergConfig = IcebergSource | IcebergSink
export type AnyConfig = NessieConfig | IcebergConfig

export interface CatalogPlace
  extends Pick<
    AnyConfig,
    'tls' | 'authenticationType' | 'basicAuth' | 'bearerToken' | 'oauth2ServerURI' | 'oauth2ClientID' | 'oauth2ClientSecret' | 'oauth2Scope'
  > {
  readonly url: string
  readonly warehouse: string | undefined
  /** Path of the catalog's settings, if it is not the usual one. */
  readonly configPath?: string
  readonly levels: readonly string[]
  readonly table: string
  readonly hasKeys: boolean
  /** The branch of a Nessie. */
  readonly branch: string | undefined
  /** First part of every path, in its encoded form. */
  prefix(settings: Readonly<Record<string, string>>, ref?: string): string
}

/** `namespace.table`, as messages name it. */
export const tableName = (config: AnyConfig): string => `${config.namespace ?? ''}.${config.table ?? ''}`

export function toPlace(config: AnyConfig): CatalogPlace {
  const common = {
    ...config,
    levels: (config.namespace ?? '').split('.'),
    table: config.table ?? '',
    hasKeys: config.accessKey !== undefined,
  }
  if (!('baseURL' in config)) {
    const prefix = (settings: Readonly<Record<string, string>>) =>
      (config.prefix ?? settings['prefix'] ?? '').split('/').map(encodeOnce).join('/')
    return { ...common, url: config.catalogURI ?? '', branch: undefined, prefix }
  }
  const { branch } = config
  return {
    ...common,
    url: `${(config.baseURL ?? '').replace(/\/+$/, '')}/iceberg`,
    branch,
    prefix: (settings, ref = branch) => {
      // The catalog's prefix names its default branch: `main|warehouse`.
      const warehouse = config.warehouse ?? decodeURIComponent(settings['prefix'] ?? '').split('|')[1]
      return encodeURIComponent(warehouse === undefined ? ref : `${ref}|${warehouse}`)
    },
  }
}

/** Catalogs send a prefix that is encoded, or one that is not. */
const encodeOnce = (part: string): string => (/%[0-9A-Fa-f]{2}/.test(part) ? part : encodeURIComponent(part))

export function toBase({ url }: CatalogPlace): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (parsed === undefined || (parsed.protocol !== 'http:' && parsed.protocol !== 'https:'))
    throw configError('the address of the catalog is not one such as https://catalog.example')
  return url.replace(/\/+$/, '').replace(/\/v1$/, '')
}

export function toAuth(place: CatalogPlace, base: string): AuthConfig {
  const { authenticationType, basicAuth, bearerToken, oauth2ClientID: clientID, oauth2ClientSecret: clientSecret } = place
  const tokenURL = place.oauth2ServerURI ?? `${base}/v1/oauth/tokens`
  const oauth2 = clientID === undefined ? undefined : { tokenURL, clientID, clientSecret, scope: place.oauth2Scope }
  return { auth: chooseAuth(), basicAuth, bearerToken, oauth2 }

  function chooseAuth(): AuthConfig['auth'] {
    if (authenticationType === 'NONE') return 'none'
    if (authenticationType === 'BASIC') return 'basic'
    if (oauth2 !== undefined) return 'oauth2'
    if (bearerToken !== undefined) return 'bearer'
    return basicAuth === undefined ? 'none' : 'basic'
  }
}
