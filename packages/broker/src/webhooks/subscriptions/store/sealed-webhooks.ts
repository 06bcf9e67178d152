// Pages of the sealed columns of webhook subscriptions, for resealing.
import { count, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

const Sealed = z.object({ id: z.string(), sealed: z.instanceof(Buffer) })

const page = (name: string, column: string) =>
  rows(
    `sealed_webhooks.${name}`,
    Sealed,
    (p: Slots<{ after: string; since: string | null }>) => `
  select id, ${column} as sealed from webhook_subscriptions
  where id > ${p.after}::uuid and ${column} is not null and (${p.since}::timestamptz is null or updated_at >= ${p.since}) order by id limit 100`,
  )
const sample = (name: string, column: string) =>
  rows(
    `sealed_webhooks.${name}`,
    Sealed,
    () => `select id, ${column} as sealed from webhook_subscriptions where ${column} is not null order by id desc limit 1`,
  )
/** Compare-and-set: a row that changed concurrently is left for the next pass. */
const put = (name: string, column: string) =>
  count(
    `sealed_webhooks.${name}`,
    (p: Slots<{ id: string; was: Buffer; sealed: Buffer }>) => `
  update webhook_subscriptions set ${column} = ${p.sealed}::bytea where id = ${p.id}::uuid and ${column} = ${p.was}::bytea`,
  )

export const urlSample = sample('urlSample', 'url_sealed')
export const urlPage = page('urlPage', 'url_sealed')
export const putUrl = put('putUrl', 'url_sealed')
export const authSample = sample('authSample', 'auth_sealed')
export const authPage = page('authPage', 'auth_sealed')
export const putAuth = put('putAuth', 'auth_sealed')
export const secretSample = sample('secretSample', 'secret_sealed')
export const secretPage = page('secretPage', 'secret_sealed')
export const putSecret = put('putSecret', 'secret_sealed')
export const oldSecretSample = sample('oldSecretSample', 'old_secret_sealed')
export const oldSecretPage = page('oldSecretPage', 'old_secret_sealed')
export const putOldSecret = put('putOldSecret', 'old_secret_sealed')
