// The address by which the caller reached the broker, for links and manifests that name the broker.
import { ApiError } from '@brokkr/contract/errors.ts'

export function requireHost(host: string | undefined): string {
  if (host !== undefined && /^([\w.-]+|\[[0-9a-fA-F:.]+\])(:\d{1,5})?$/.test(host)) return host
  throw new ApiError('validation_failed', 'the Host header must be the name by which clients reach the broker', {
    details: { errors: [{ path: 'Host', message: 'is not a host name' }] },
  })
}
