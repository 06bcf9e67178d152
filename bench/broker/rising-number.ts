// A number in a prepared request that is higher each time it is sent: reports that are not newer than the last are not stored.

/** Stands for it in a request's text; microseconds since 1970 have as many digits. */
export const risingNumber = 'NNNNNNNNNNNNNNNN'

export const nextNumber = (): string => String(Math.floor((performance.timeOrigin + performance.now()) * 1000))
