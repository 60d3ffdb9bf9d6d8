// SPDX-License-Identifier: Apache-2.0

package window

// oldZones gives the place for names of countries and states that the IANA
// database keeps for the past only. Systems may leave them out.
var oldZones = map[string]string{
	"Brazil/Acre": "America/Rio_Branco", "Brazil/DeNoronha": "America/Noronha", "Brazil/East": "America/Sao_Paulo", "Brazil/West": "America/Manaus",
	"Canada/Atlantic": "America/Halifax", "Canada/Central": "America/Winnipeg", "Canada/Eastern": "America/Toronto", "Canada/Mountain": "America/Edmonton",
	"Canada/Newfoundland": "America/St_Johns", "Canada/Pacific": "America/Vancouver", "Canada/Saskatchewan": "America/Regina", "Canada/Yukon": "America/Whitehorse",
	"Chile/Continental": "America/Santiago", "Chile/EasterIsland": "Pacific/Easter",
	"Mexico/BajaNorte": "America/Tijuana", "Mexico/BajaSur": "America/Mazatlan", "Mexico/General": "America/Mexico_City",
	"US/Alaska": "America/Anchorage", "US/Aleutian": "America/Adak", "US/Arizona": "America/Phoenix", "US/Central": "America/Chicago",
	"US/East-Indiana": "America/Indiana/Indianapolis", "US/Eastern": "America/New_York", "US/Hawaii": "Pacific/Honolulu",
	"US/Indiana-Starke": "America/Indiana/Knox", "US/Michigan": "America/Detroit", "US/Mountain": "America/Denver",
	"US/Pacific": "America/Los_Angeles", "US/Samoa": "Pacific/Pago_Pago",
	"EST5EDT": "America/New_York", "CST6CDT": "America/Chicago", "MST7MDT": "America/Denver", "PST8PDT": "America/Los_Angeles",
	"Cuba": "America/Havana", "Egypt": "Africa/Cairo", "Eire": "Europe/Dublin", "GB": "Europe/London", "GB-Eire": "Europe/London",
	"Hongkong": "Asia/Hong_Kong", "Iceland": "Atlantic/Reykjavik", "Iran": "Asia/Tehran", "Israel": "Asia/Jerusalem", "Jamaica": "America/Jamaica",
	"Japan": "Asia/Tokyo", "Kwajalein": "Pacific/Kwajalein", "Libya": "Africa/Tripoli", "NZ": "Pacific/Auckland", "NZ-CHAT": "Pacific/Chatham",
	"Navajo": "America/Denver", "PRC": "Asia/Shanghai", "Poland": "Europe/Warsaw", "Portugal": "Europe/Lisbon", "ROC": "Asia/Taipei", "ROK": "Asia/Seoul",
	"Singapore": "Asia/Singapore", "Turkey": "Europe/Istanbul", "W-SU": "Europe/Moscow",
	"Etc/UCT": "UTC", "Etc/Universal": "UTC", "Etc/Zulu": "UTC", "UCT": "UTC", "Universal": "UTC", "Zulu": "UTC",
}
