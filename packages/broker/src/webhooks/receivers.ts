// Where webhooks may be sent: public addresses, and what the operator allows by network or host. Asked when a subscription is made or
// changed, so that its owner hears of it; what counts is the check of every address when a message is sent.
import { ApiError } from '@brokkr/contract/error.ts'
import type { Allow } from '@brokkr/runtime/address.ts'
import { Retryable, Terminal } from '@brokkr/runtime/errors.ts'
import { type Lookup, lookupAll, resolveChecked } from '@brokkr/runtime/outbound-connect.ts'
import { checkUrl } from '@brokkr/runtime/outbound-request.ts'

export interface Receivers {
  /** The same value for as long as the settings are the same: another one closes connections. */
  readonly allow: () => Allow
  /** Throws `invalid_webhook` for an address that the broker would not send to. */
  check(url: string): Promise<void>
}
/** A name that nobody knows now may be known later. */
const lookupMs = 2_000

export function createReceivers(
  settings: { cidrs: () => readonly string[]; hosts: () => readonly string[] },
  lookup: Lookup = lookupAll,
): Receivers {
  let kept: Allow = { cidrs: settings.cidrs(), hosts: settings.hosts() }
  const allow = () => {
    const [cidrs, hosts] = [settings.cidrs(), settings.hosts()]
    if (kept.cidrs !== cidrs || kept.hosts !== hosts) kept = { cidrs, hosts }
    return kept
  }
  return {
    allow,
    check: async (url) => {
      try {
        const { hostname } = checkUrl(url, allow())
        await resolveChecked(lookup, hostname.replace(/^\[|\]$/g, ''), allow(), lookupMs)
      } catch (error) {
        if (error instanceof Retryable) return
        if (error instanceof Terminal) throw new ApiError('invalid_webhook', `url: ${error.message}`, { status: 422 })
        throw error
      }
    },
  }
}
